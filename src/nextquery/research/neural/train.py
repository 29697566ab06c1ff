"""Train a neural rival on a pool's sessions or on a raw log, and write its folder.

As for encoders, unfinished work is kept next to the target (``.MODEL.work``): if you start a
killed run again, it continues with the next step.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.build.ingest import ingest
from nextquery.build.stages import fingerprint
from nextquery.build.train import CARD, REPORT
from nextquery.checks import installed, whole_number
from nextquery.errors import InvalidInput, StorageError
from nextquery.folders import work_on
from nextquery.logs import LogOptions
from nextquery.research.neural.registry import METHODS, Running, method_named
from nextquery.research.neural.serve import KIND, VERSION

if TYPE_CHECKING:
    from nextquery.encode.train.loop import Note, OnCheck


Progress = Callable[[str, float | None], None]


def train(
    source: str | os.PathLike[str] | Iterable[Any],
    out: str | os.PathLike[str],
    method: str,
    running: Running | None = None,
    log_options: LogOptions | None = None,
    *,
    encoder: str = "auto",
    until: float | None = None,
    hold_out: int = 0,
    clicks: str | os.PathLike[str] | None = None,
    progress: Progress = lambda stage, done: None,
    on_check: "OnCheck" = lambda stage, check, steps: None,
    note: "Note" = lambda message: None,
) -> dict[str, Any]:
    """Train a model; an older one at `out` stays until the new one is complete.

    Parameters
    ----------
    source : the folder of a pool, whose sessions and vectors are used; or any log that
        `nextquery.build.ingest` reads, of which a pool is then made for the time of the training.
    out : the model's folder.
    method : a name of `METHODS`; a variant sets its parameters: ``gru4rec@hidden=64,items=text``.
    running : how the training runs: checks, seed, device.
    log_options : how to read, clean and protect a log.
    encoder : makes the vectors of a log's queries, as for an ingest.
    until : learn only from what is dated before this Unix time.
    hold_out : number of newest sessions of two or more queries (at most half of them) to leave out.
        Without `until`, those that the pool holds out for replays are left out too.
    clicks : an export of the service's log (``nextquery export --format parquet``), which a method
        that learns from accepted recommendations learns from, instead of the pool's sessions.
        `until` and `hold_out` are then about its sessions.
    progress, on_check, note : as in `nextquery.build.train.train`.

    Returns the content of ``training.json``.
    """
    name, options = method_named(method)
    target, running = Path(out), running or Running()
    folders.refuse_foreign(target, KIND)
    whole_number(hold_out, "hold_out", at_least=0)
    check_clicks(name, clicks)
    installed("bert", "torch", "onnx", "onnxscript", "onnxruntime")
    from nextquery.encode.train.loop import device_for, enough_memory
    from nextquery.research.neural.task import learn

    device_for(running.device)  # fails now if there is no such device
    with work_on(target) as work:
        if is_pool(source):
            pool = ArmPool.open(str(source))
        else:
            pool = _ingested(source, work, log_options, encoder, hold_out, progress)
        callbacks: Any = {"progress": progress, "on_check": on_check, "note": note}
        smaller = ", ".join(
            f"{each}={value}" for each, value in options.to_dict().items() if each in _SIZES
        )
        with enough_memory(f"in --method {name}@…: {smaller}"):
            model, card = learn(
                pool,
                (name, options),
                running,
                until=until,
                hold_out=hold_out,
                clicks=clicks,
                work=work,
                **callbacks,
            )
        report = {**model.report, "out": str(target)}
        extra_files = {CARD: card.encode(), REPORT: (json.dumps(report, indent=2) + "\n").encode()}
        parts, meta = model.parts(), model.meta()
        try:
            with folders.writing(
                target, kind=KIND, version=VERSION, parts=parts, meta=meta, extra_files=extra_files
            ):
                pass
        except StorageError as error:
            raise StorageError(
                f"{error} The training is complete and kept in {work}. Run the same command again "
                "to export and write it."
            ) from error
        shutil.rmtree(work, ignore_errors=True)
    return report


_SIZES = ("batch", "hidden", "negatives", "length")


def check_clicks(name: str, clicks: str | os.PathLike[str] | None) -> None:
    """Raise an error if a method lacks an export of the service's log, or has no use for it."""
    if METHODS[name].clicks and clicks is None:
        raise InvalidInput(
            f"{name} learns from recommendations that were accepted. Pass an export of the "
            "service's log: nextquery export --format parquet --out FILE, then --clicks FILE."
        )
    if clicks is not None and not METHODS[name].clicks:
        raise InvalidInput(
            f"{name} learns from the sessions of the pool, so --clicks has no effect. Leave it "
            "out, or use --method cfan."
        )
    if clicks is not None and not Path(clicks).is_file():
        raise InvalidInput(f"there is no file {clicks}. Write it with nextquery export.")


def is_pool(source: Any) -> bool:
    """Whether a source is a folder that `nextquery` wrote, and not a log."""
    return isinstance(source, str | os.PathLike) and (Path(source) / folders.MANIFEST).exists()


def _ingested(
    log: Any,
    work: Path,
    log_options: LogOptions | None,
    encoder: str,
    hold_out: int,
    progress: Progress,
) -> ArmPool:
    """Return a pool of a log, in the working folder; an earlier run may have made it."""
    options = log_options or LogOptions.of(log)
    made_from = json.dumps([fingerprint(log, options), encoder, hold_out])
    path = work / f"pool-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"
    if not is_pool(path):
        try:
            ingest(log, path, options, encoder=encoder, hold_out=hold_out, progress=progress)
        except InvalidInput:
            shutil.rmtree(work, ignore_errors=True)  # keep nothing of the log
            raise
    return ArmPool.open(path)
