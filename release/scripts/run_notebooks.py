"""Execute notebooks in this environment; say how long each took and how many pictures it made."""

import os
import sys
import tempfile
import time
from pathlib import Path

folder = tempfile.mkdtemp()
os.environ |= {"IPYTHONDIR": folder, "JUPYTER_CONFIG_DIR": folder, "JUPYTER_DATA_DIR": folder}

import nbformat  # noqa: E402 - the folders come first
from nbclient import NotebookClient  # noqa: E402

for name in sys.argv[1:]:
    notebook = nbformat.read(name, as_version=4)
    nbformat.validate(notebook)
    began = time.monotonic()
    client = NotebookClient(
        notebook, timeout=1800, resources={"metadata": {"path": tempfile.mkdtemp()}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pictures = sum("image/png" in output.get("data", ()) for output in outputs)
    seconds = time.monotonic() - began
    print(f"{Path(name).stem}: {seconds:.0f} s, {pictures} pictures", end="; ")
