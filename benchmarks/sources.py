"""Running services of another checkout beside this one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def source_first(source: Path | None) -> Iterator[None]:
    """Let processes that are started here import nextquery from `source`."""
    before = os.environ.get("PYTHONPATH")
    if source is not None:
        os.environ["PYTHONPATH"] = str(source.resolve())
    try:
        yield
    finally:
        if before is not None:
            os.environ["PYTHONPATH"] = before
        elif source is not None:
            del os.environ["PYTHONPATH"]


def name_of(source: Path | None) -> str:
    """Return the name of a checkout: the folder of its ``src``."""
    return "installed" if source is None else source.resolve().parent.name
