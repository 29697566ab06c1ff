"""The encoders that come with built-in logs, so that nobody waits for a fit to try one."""

from pathlib import Path
from zipfile import ZipFile

from nextquery import datasets


def comes_with_encoder(log: str | None) -> bool:
    """Whether a built-in log has a fitted encoder.

    >>> [comes_with_encoder(log) for log in ("topics", "core", None)]
    [True, False, False]
    """
    built_in = datasets.LOGS.get(log or "")
    return built_in is not None and bool(built_in.encoder)


def unpacked(log: str | None, folder: Path) -> Path | None:
    """Unpack the encoder of a built-in log into `folder` and return its path, if there is one.

    It is what ``--encoder tuned`` fits on that log, in half precision and without the tokens that
    cannot occur in it (capital letters, other scripts). `benchmarks.fitted_encoders` makes it.
    """
    if not comes_with_encoder(log):
        return None
    target = folder / "encoder"
    with ZipFile(Path(__file__).parent / datasets.LOGS[log or ""].encoder) as archive:
        archive.extractall(target)
    return target
