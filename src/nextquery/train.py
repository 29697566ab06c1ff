"""Train an encoder on a raw log: prepare, train, export, write.

Unfinished work is kept in a working folder beside the encoder (``.ENCODER.work``): the prepared log
and the checkpoints. If you start a killed run again, it continues with the next step.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextquery import folders
from nextquery.checks import installed, whole_number
from nextquery.encode.encoder import KIND
from nextquery.encode.train.card import model_card
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import StorageError
from nextquery.folders import LOCK, work_on
from nextquery.ingest import PREPARED, held_out_of, not_held_out, prepared
from nextquery.log_files import fingerprint
from nextquery.logs import LogOptions

if TYPE_CHECKING:
    from nextquery.encode.train.export import Trained
    from nextquery.encode.train.loop import Note, Say

__all__ = ["train"]

REPORT, CARD, STATIC = "training.json", "MODEL_CARD.md", "static"


def train(
    log: str | os.PathLike[str] | Iterable[Any],
    out: str | os.PathLike[str],
    options: TrainOptions,
    log_options: LogOptions | None = None,
    *,
    hold_out: int = 0,
    progress: Callable[[str, float | None], None] = lambda stage, done: None,
    say: "Say" = lambda stage, check, steps: None,
    note: "Note" = lambda message: None,
) -> dict[str, Any]:
    """Train an encoder on a log; an older one at `out` stays until the new one is complete.

    Parameters
    ----------
    log : any log that `nextquery.logs.prepare` reads.
    out : the encoder's folder; its distilled table goes into ``static`` inside it.
    options : how to train.
    log_options : how to read, clean and protect the log, as for an ingest.
    hold_out : number of newest sessions of two or more queries (at most half) that are not used,
        for replays. Before them, those of the warm start are left out too, as in `ingest`.
    progress : called with the stage and the fraction done.
    say : called at each check on the validation sessions.
    note : called with a message that you should read: a checkpoint that cannot be used, parts of
        a start model that are left out, a stage that did not help.

    Returns the content of ``training.json``.
    """
    target, cleaning = Path(out), log_options or LogOptions.of(log)
    folders.refuse_foreign(target, KIND, within=(STATIC,))
    folders.refuse_foreign(target / STATIC, KIND)
    whole_number(hold_out, "hold_out", at_least=0)  # before any work
    installed("bert", "torch", "transformers", "sentence_transformers", "onnx", "onnxruntime")
    from nextquery.encode.train.export import finish  # imports torch, so only for training
    from nextquery.encode.train.loop import device_for, enough_memory
    from nextquery.encode.train.objectives import learn

    device_for(options.device)  # fails now if there is no such device
    sizes = f"--pairs is {options.pairs}, --batch-tokens {options.batch_tokens}"
    with work_on(target) as work:
        texts, origin, _ = prepared(log, cleaning, work, fingerprint(log, cleaning), progress)
        origin = replace(origin, held_out=held_out_of(origin.sessions, hold_out))
        sessions = not_held_out(origin)
        used, arms = np.unique(sessions.arms, return_inverse=True)
        sessions = sessions._replace(arms=arms.astype(np.int64))
        queries = [texts[i] for i in used.tolist()]
        timed = bool(np.isfinite(np.asarray(origin.sessions.times)).all())
        try:
            callbacks: Any = {"progress": progress, "say": say, "note": note}
            with enough_memory(sizes):
                learnt = learn(queries, sessions, options, timed=timed, work=work, **callbacks)
                made = finish(learnt, queries, progress=progress)
        except Exception:
            no_checkpoint = set(os.listdir(work)) <= {PREPARED, LOCK}
            if no_checkpoint:  # keep nothing of the log
                shutil.rmtree(work, ignore_errors=True)
            raise
        report = {**made.report, "hold_out": origin.held_out, "out": str(target)}
        try:
            _write(target, made, report)
        except StorageError as error:
            raise StorageError(
                f"{error} The training is complete and kept in {work}. Run the same command again "
                "to export and write it."
            ) from error
        shutil.rmtree(work, ignore_errors=True)
    return report


def _write(target: Path, made: "Trained", report: dict[str, Any]) -> None:
    """Write everything to disk before the first rename, so a failure keeps the older encoder."""
    beside = {
        CARD: model_card(report).encode(),
        REPORT: (json.dumps(report, indent=2) + "\n").encode(),
    }
    with contextlib.ExitStack() as whole:
        if made.static is not None:
            whole.enter_context(made.static.saving(target / STATIC))
        # Entered last, so renamed first: the files beside it are not a valid folder on their own.
        whole.enter_context(made.encoder.saving(target, beside=beside, within=(STATIC,)))
    if made.static is None:
        shutil.rmtree(target / STATIC, ignore_errors=True)
