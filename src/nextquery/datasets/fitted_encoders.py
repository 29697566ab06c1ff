"""The encoders that come with built-in logs, so that nobody waits for a fit to try one."""

from pathlib import Path
from zipfile import ZipFile

from nextquery import datasets


def unpacked(log: str | None, folder: Path) -> Path | None:
    """Unpack the encoder of a built-in log into `folder` and return its path, if there is one.

    It is what ``--encoder tuned`` fits on that log, in half precision and without the tokens that
    cannot occur in it (capital letters, other scripts). `benchmarks.fitted_encoders` makes it.
    """
    built_in = datasets.LOGS.get(log or "")
    if built_in is None or not built_in.encoder:
        return None
    target = folder / "encoder"
    with ZipFile(Path(__file__).parent / built_in.encoder) as archive:
        archive.extractall(target)
    return target
