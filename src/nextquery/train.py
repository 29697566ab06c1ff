"""From a raw log to a trained encoder: prepare, train, export, write.

Everything unfinished stands in a working folder beside the encoder (``.ENCODER.work``): the
prepared log and the checkpoints. Started again after a kill, the run goes on with the next step.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextquery import folders
from nextquery.checks import installed, whole_number
from nextquery.encode.base import KIND
from nextquery.encode.train.card import model_card
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import InvalidInput, StorageError
from nextquery.ingest import PREPARED, fingerprint, prepared
from nextquery.logs import LogOptions

if TYPE_CHECKING:
    from nextquery.encode.train.finish import Trained
    from nextquery.encode.train.loop import Say

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
) -> dict[str, Any]:
    """Train an encoder on a log; an older one at `out` stands until the new one is whole.

    Parameters
    ----------
    log : what `nextquery.logs.prepare` reads.
    out : the encoder's folder; its distilled table goes into ``static`` inside it.
    options : how to train.
    log_options : how to read, clean and protect the log, as for an ingest.
    hold_out : so many of the newest sessions (at most half) are not looked at, for replays.
    progress : called with the stage and the share of it that is done.
    say : called at each look at the validation sessions.

    Returns what ``training.json`` says.
    """
    target, cleaning = Path(out), log_options or LogOptions()
    folders.refuse_foreign(target, KIND)
    whole_number(hold_out, "hold_out", at_least=0)
    installed("bert", "torch", "transformers", "sentence_transformers", "onnx", "onnxruntime")
    from nextquery.encode.train.finish import finish  # torch: only who trains pays
    from nextquery.encode.train.run import device_for, learn

    device_for(options)  # says now if there is no such device
    work = target.parent / f".{target.name}.work"
    texts, origin, _ = prepared(log, cleaning, work, fingerprint(log, cleaning), progress)
    kept = origin.sessions.size - min(hold_out, origin.sessions.size // 2)
    sessions = origin.sessions.take(np.arange(kept))
    seen, arms = np.unique(sessions.arms, return_inverse=True)
    sessions = sessions._replace(arms=arms.astype(np.int64))
    own = [texts[i] for i in seen.tolist()]
    timed = bool(np.isfinite(np.asarray(origin.session_times)).all())
    try:
        learnt = learn(own, sessions, options, timed=timed, work=work, progress=progress, say=say)
    except InvalidInput:
        if set(os.listdir(work)) <= {PREPARED}:  # nothing was learnt: keep none of the log
            shutil.rmtree(work, ignore_errors=True)
        raise
    except StorageError as error:
        raise StorageError(
            f"{error} The training stands at its last checkpoint in {work}; the same command "
            "goes on from there."
        ) from error
    made = finish(learnt, own, progress=progress)
    report = {**made.report, "hold_out": origin.sessions.size - kept, "out": str(target)}
    _write(target, made, report)
    shutil.rmtree(work, ignore_errors=True)
    return report


def _write(target: Path, made: "Trained", report: dict[str, Any]) -> None:
    """The encoder first: what stands beside it makes no folder of ours by itself."""
    made.encoder.save(target)
    if made.static is not None:
        made.static.save(target / STATIC)
    else:
        shutil.rmtree(target / STATIC, ignore_errors=True)
    try:
        folders.replace_file(target, CARD, model_card(report).encode())
        folders.replace_file(target, REPORT, (json.dumps(report, indent=2) + "\n").encode())
    except OSError as error:
        raise StorageError(
            f"could not write {target}: {error}. The encoder itself is whole; free space and run "
            "the same command again for its report."
        ) from error
