"""Execute notebooks in this environment; say how long each took and how many pictures it made."""

import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any


def run(name: str) -> str:
    """Execute one notebook in an empty folder; an error in a cell raises."""
    nbformat: Any = import_module("nbformat")  # half typed
    nbclient: Any = import_module("nbclient")
    notebook = nbformat.read(name, as_version=4)
    nbformat.validate(notebook)
    began = time.monotonic()
    where = {"metadata": {"path": tempfile.mkdtemp()}}
    nbclient.NotebookClient(notebook, timeout=1800, resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pictures = sum("image/png" in output.get("data", ()) for output in outputs)
    return f"{Path(name).stem}: {time.monotonic() - began:.0f} s, {pictures} pictures"


def main() -> None:
    """Execute the notebooks, with no setting of this machine."""
    folder = tempfile.mkdtemp()
    os.environ |= {"IPYTHONDIR": folder, "JUPYTER_CONFIG_DIR": folder, "JUPYTER_DATA_DIR": folder}
    print("; ".join([run(name) for name in sys.argv[1:]]))


if __name__ == "__main__":
    main()
