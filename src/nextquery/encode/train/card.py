"""The model card: how an encoder was trained, on what data, and its limits."""

from collections.abc import Mapping
from typing import Any

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
