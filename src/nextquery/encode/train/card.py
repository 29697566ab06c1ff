"""The model card: what an encoder learned from, how, and what it is good for."""

from collections.abc import Mapping
from typing import Any

_HOW = {
    "bert": "masked-LM on half-sessions joined into lines, from scratch, mean pooling (as in "
    "Parambath et al., ACML 2021)",
    "contrastive": "two queries of one session attract, the others of the batch repel (InfoNCE)",
}
_FLATTERED = (
    " Floors on validation sessions chose the weights, so they flatter a little; measure on "
    "sessions held out with `--hold-out`."
)


def model_card(report: Mapping[str, Any]) -> str:
    """Markdown for people, from what ``training.json`` holds."""
    data, floors = report["data"], report["floors"]
    chosen = report["method"] == "contrastive"  # masked-LM ends with its last weights, as published
    start = report["options"]["start"] or "random weights"
    lines = [
        "# A query encoder",
        "",
        f"Made by `nextquery train --method {report['method']}`: {_HOW[report['method']]}. "
        f"Started from {start}; {report['parameters']:,} parameters, a vocabulary of "
        f"{report['vocabulary']:,} word pieces, vectors of {report['dim']} dimensions.",
        "",
        "## Data",
        "",
        f"{data['training_sessions']:,} sessions over {data['texts']:,} distinct queries of one "
        f"log (SHA-256 {data['sha256'][:16]}…), cleaned and protected as by `nextquery ingest`. "
        f"{data['validation_sessions']:,} further sessions ({data['split']}) "
        f"{'decided when to stop' if chosen else 'were only measured on'}; "
        f"{report.get('hold_out', 0):,} were not looked at.",
        "",
        "## Training",
        "",
        f"On {report['hardware']}, {report['seconds']:.0f} s. Floor: the share of validation "
        f"sessions none of whose later queries is among the {report['k']} nearest texts.",
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
            f"`static/` is the same encoder distilled into a table of token vectors, many times as "
            f"fast; its floor is {floors['static']:.3f}."
        )
    lines += [
        "",
        "## Limits",
        "",
        "It knows what this log's users ask together, and nothing about who asks. The vocabulary "
        "holds words of the log: share it only with whom you would share the log's common queries."
        + (_FLATTERED if chosen else ""),
        "",
    ]
    return "\n".join(lines)


def _row(stage: Mapping[str, Any]) -> str:
    curve = stage["curve"]
    losses = [check["loss"] for check in curve if check["loss"] is not None]
    floors = [check["floor"] for check in curve]
    last = curve[-1]["perplexity"]
    loss = f"{losses[0]:.3f}, {losses[-1]:.3f}" if losses else "–"
    said = "–" if last is None else f"{last:.1f}"
    return (
        f"| {stage['name']} | {stage['steps']:,} of {stage['planned']:,} | {loss} "
        f"| {floors[0]:.3f}, {min(floors):.3f}, {floors[-1]:.3f} | {said} "
        f"| {stage['tokens_per_second']:,.0f} |"
    )
