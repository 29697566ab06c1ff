"""Train an encoder on a raw log: prepare, train, export, write, with a model card.

Unfinished work is kept next to the encoder (``.ENCODER.work``): the prepared log and the
checkpoints. If you start a killed run again, it continues with the next step.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nextquery import folders
from nextquery.build.ingest import PREPARED, held_out_of, not_held_out, prepared
from nextquery.build.stages import fingerprint
from nextquery.checks import installed, whole_number
from nextquery.encode.encoder import KIND
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import StorageError
from nextquery.folders import LOCK, work_on
from nextquery.logs import LogOptions

if TYPE_CHECKING:
    from nextquery.encode.train.export import Trained
    from nextquery.encode.train.loop import Note, OnCheck

__all__ = ["train"]


_HOW = {
    "bert": "masked-LM on half-sessions joined into lines, from scratch, mean pooling (as in "
    "Parambath et al., ACML 2021)",
    "contrastive": "two queries of one session attract, the others of the batch repel (InfoNCE)",
}
_OPTIMISTIC = (
    " The weights were chosen by the floor on the validation sessions, so that floor is slightly "
    "optimistic. Measure on sessions held out with `--hold-out`."
)


def model_card(report: Mapping[str, Any]) -> str:
    """Return a model card in Markdown, from the content of ``training.json``."""
    data, floors = report["data"], report["floors"]
    chosen = report["method"] == "contrastive"  # masked-LM keeps its last weights, as published
    start = report["options"]["start"] or "random weights"
    lines = [
        "# A query encoder",
        "",
        f"Trained by `nextquery train --method {report['method']}`: {_HOW[report['method']]}. "
        f"Started from {start}; {report['parameters']:,} parameters, a vocabulary of "
        f"{report['vocabulary']:,} word pieces, vectors of {report['dim']} dimensions.",
        "",
        "## Data",
        "",
        f"{data['training_sessions']:,} sessions over {data['texts']:,} distinct queries of one "
        f"log (SHA-256 {data['sha256'][:16]}…), cleaned and protected as by `nextquery ingest`. "
        f"{data['validation_sessions']:,} further sessions ({data['split']}) "
        f"{'decided when to stop' if chosen else 'were used for validation only'}; "
        f"{report.get('hold_out', 0):,} were not used.",
        "",
        "## Training",
        "",
        f"On {report['hardware']}, {report['seconds']:.0f} s. Floor: the share of validation "
        f"sessions without a later query among the {report['k']} nearest texts.",
        "",
        "| stage | steps | loss, first and last | floor, first, best and last | perplexity "
        "| tokens/s |",
        "|---|---|---|---|---|---|",
        *(_row(stage) for stage in report["stages"]),
        "",
        "## Files",
        "",
        f"The encoder is ONNX with weights in half precision (cosine with the trained model at "
        f"least {report['onnx_worst_cosine']:.7f}) and needs onnxruntime, not torch. Its floor "
        f"is {floors['model']:.3f}.",
    ]
    if "static" in floors:
        lines.append(
            f"`static/` is the same encoder distilled into a table of token vectors, which is many "
            f"times faster; its floor is {floors['static']:.3f}."
        )
    lines += [
        "",
        "## Limits",
        "",
        "The encoder reflects which queries occur together in this log, and nothing about who "
        "issued them. The vocabulary contains words of the log: share it only with people who may "
        "see the log's common queries." + (_OPTIMISTIC if chosen else ""),
        "",
    ]
    return "\n".join(lines)


def _row(stage: Mapping[str, Any]) -> str:
    curve = stage["curve"]
    losses = [check["loss"] for check in curve if check["loss"] is not None]
    floors = [check["floor"] for check in curve]
    last = curve[-1]["perplexity"]
    loss = f"{losses[0]:.3f}, {losses[-1]:.3f}" if losses else "–"
    perplexity = "–" if last is None else f"{last:.1f}"
    return (
        f"| {stage['name']} | {stage['steps']:,} of {stage['planned']:,} | {loss} "
        f"| {floors[0]:.3f}, {min(floors):.3f}, {floors[-1]:.3f} | {perplexity} "
        f"| {stage['tokens_per_second']:,.0f} |"
    )


REPORT, CARD, STATIC = "training.json", "MODEL_CARD.md", "static"


def train(
    log: str | os.PathLike[str] | Iterable[Any],
    out: str | os.PathLike[str],
    options: TrainOptions,
    log_options: LogOptions | None = None,
    *,
    hold_out: int = 0,
    progress: Callable[[str, float | None], None] = lambda stage, done: None,
    on_check: "OnCheck" = lambda stage, check, steps: None,
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
    on_check : called at each check on the validation sessions.
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
            callbacks: Any = {"progress": progress, "on_check": on_check, "note": note}
            with enough_memory(sizes):
                result = learn(queries, sessions, options, timed=timed, work=work, **callbacks)
                made = finish(result, queries, progress=progress)
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
    extra_files = {
        CARD: model_card(report).encode(),
        REPORT: (json.dumps(report, indent=2) + "\n").encode(),
    }
    with contextlib.ExitStack() as whole:
        if made.static is not None:
            whole.enter_context(made.static.saving(target / STATIC))
        # Entered last, so renamed first: the files beside it are not a valid folder on their own.
        whole.enter_context(made.encoder.saving(target, extra_files=extra_files, within=(STATIC,)))
    if made.static is None:
        shutil.rmtree(target / STATIC, ignore_errors=True)
