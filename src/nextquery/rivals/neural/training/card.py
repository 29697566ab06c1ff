"""The model card of a neural rival."""

from collections.abc import Mapping
from typing import Any

from nextquery.rivals.neural.model_folder import day_of


def model_card(report: Mapping[str, Any]) -> str:
    """Return a model card in Markdown, from the content of ``training.json``."""
    data, stage, measured = report["data"], report["stage"], report["validation"]
    until, curve = report["knows_until"], report["stage"]["curve"]
    options = ", ".join(f"{name}={value}" for name, value in report["options"].items())
    best = min(curve, key=lambda check: check["floor"])
    lines = [
        f"# A model of the rival {report['method']}",
        "",
        f"Trained by `nextquery train --method {report['method']}` with {options}. "
        f"{report['parameters']:,} parameters.",
        "",
        "## Data",
        "",
        f"{data['training_sessions']:,} sessions over {data['items']:,} distinct queries, cleaned "
        f"and protected as by `nextquery ingest`; {data['validation_sessions']:,} further sessions "
        f"({data['split']}) decided when to stop, {data['left_out']:,} were left out.",
        "It knows nothing dated later than "
        + ("an unknown date: the log has no times." if until is None else f"{day_of(until)}."),
        "",
        "## Training",
        "",
        f"On {report['hardware']}, {stage['steps']:,} of {stage['planned']:,} steps in "
        f"{stage['seconds']:.0f} s; the weights are those of step {best['step']:,}.",
        "",
        f"At {measured['steps']:,} steps of the validation sessions, among {measured['among']}, "
        f"ties counted against it: recall@20 {measured['recall']:.3f}, MRR@20 "
        f"{measured['mrr']:.3f}, perplexity {measured['perplexity']:,.0f}. The weights were chosen "
        "on these sessions, so it is slightly optimistic.",
        "",
        "## Limits",
        "",
        "The model reflects what follows what in this log. Its folder contains the queries that it "
        "learnt from: share it only with people who may see the log's common queries.",
        "",
    ]
    return "\n".join(lines)
