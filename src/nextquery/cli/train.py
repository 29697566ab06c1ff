"""`nextquery train`: train an encoder on a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli import log_options as o
from nextquery.cli.output import Stages, err, out, print_json, table
from nextquery.encode.train import METHODS, TrainOptions

if TYPE_CHECKING:
    from nextquery.encode.train.checkpoints import Check

_D = TrainOptions()


def train(
    log: o.Log,
    to: Annotated[Path, typer.Option("--out", help="The encoder folder to write.")],
    method: Annotated[str, typer.Option(help=f"{' or '.join(METHODS)}.")] = _D.method,
    start: Annotated[
        str | None,
        typer.Option(help="Name or folder of a sentence-transformers model to start from."),
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimensions after the contrastive projection.")] = _D.dim,
    vocabulary: Annotated[
        int, typer.Option(help="Size of the word-piece vocabulary.")
    ] = _D.vocabulary,
    layers: Annotated[
        int, typer.Option(help="Layers of the BERT trained from scratch.")
    ] = _D.layers,
    hidden: Annotated[int, typer.Option(help="Hidden size of the BERT.")] = _D.hidden,
    heads: Annotated[int, typer.Option(help="Attention heads of the BERT.")] = _D.heads,
    intermediate: Annotated[
        int, typer.Option(help="Intermediate size of the BERT.")
    ] = _D.intermediate,
    epochs: Annotated[int, typer.Option(help="Epochs of masked-LM.")] = _D.epochs,
    mask: Annotated[float, typer.Option(help="Share of tokens to mask.")] = _D.mask,
    mlm_rate: Annotated[float, typer.Option(help="Learning rate of masked-LM.")] = _D.mlm_rate,
    batch_tokens: Annotated[int, typer.Option(help="Tokens per masked-LM step.")] = _D.batch_tokens,
    max_tokens: Annotated[
        int, typer.Option(help="Longest query in tokens; longer ones are cut.")
    ] = _D.max_tokens,
    max_line: Annotated[
        int, typer.Option(help="Longest masked-LM line in tokens; longer ones are split.")
    ] = _D.max_line,
    steps: Annotated[int, typer.Option(help="Maximum number of contrastive steps.")] = _D.steps,
    pairs: Annotated[int, typer.Option(help="Pairs per contrastive step.")] = _D.pairs,
    temperature: Annotated[float, typer.Option(help="Temperature of InfoNCE.")] = _D.temperature,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Contrastive learning rate; by default it depends on --start and the log size."
        ),
    ] = None,
    weight_decay: Annotated[
        float, typer.Option(help="Weight decay of the contrastive stage.")
    ] = _D.weight_decay,
    residual: Annotated[
        bool, typer.Option("--residual", help="Add a table of token vectors, trained jointly.")
    ] = False,
    checks: Annotated[
        int, typer.Option(help="Maximum number of validations per stage.")
    ] = _D.checks,
    patience: Annotated[
        int,
        typer.Option(help="Validations without improvement before the contrastive stage stops."),
    ] = _D.patience,
    seed: Annotated[int, typer.Option(help="Random seed.")] = _D.seed,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = _D.device,
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = _D.precision,
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Seconds between checkpoints.")
    ] = _D.checkpoint_seconds,
    static: Annotated[
        bool,
        typer.Option("--static/--no-static", help="Also distil into a table of token vectors."),
    ] = True,
    hold_out: Annotated[
        int,
        typer.Option(
            help="Number of newest sessions of two or more queries to hide from training, for "
            "replays."
        ),
    ] = 0,
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    query: o.Query = None,
    gap: o.Gap = 30.0,
    profile: o.Profile = "text",
    skip: o.Skip = [],  # noqa: B006  (typer only reads it)
    min_queries: o.MinQueries = None,
    max_queries: o.MaxQueries = 50,
    max_chars: o.MaxChars = 1000,
    language: o.Language = None,
    min_users: o.MinUsers = None,
    blocklist: o.Blocklist = None,
    format: o.Format = None,
    memory_limit: o.MemoryLimit = "2GB",
    threads: o.Threads = None,
    as_json: o.AsJson = False,
) -> None:
    """Train an encoder on a log: the published BERT, or one trained on queries that occur together.

    An older encoder at --out is kept until the new one is complete. To resume an interrupted run
    from its last checkpoint, run the same command again.
    """
    from nextquery.logs import LogOptions
    from nextquery.train import train as run

    given = dict(locals())
    options = TrainOptions(**{name: given[name] for name in TrainOptions.__dataclass_fields__})
    files = o.source(log)
    cleaning = LogOptions.of(
        files,
        session=session,
        user=user,
        time=time,
        query=query,
        gap_minutes=gap,
        profile=profile,
        skip=tuple(skip),
        min_queries=min_queries,
        max_queries=max_queries,
        max_chars=max_chars,
        language=language,
        min_users=min_users,
        blocklist=blocklist,
        format=format,
        memory_limit=memory_limit,
        threads=threads,
    )
    with Stages() as stages:
        callbacks: Any = {"progress": stages, "say": _print_check, "note": _print_note}
        report = run(files, to, options, cleaning, hold_out=hold_out, **callbacks)
    if as_json:
        print_json(report)
    else:
        _show(report)


def _print_check(stage: str, check: "Check", steps: int) -> None:
    loss = "" if check.loss is None else f"  loss {check.loss:.4f}"
    perplexity = "" if check.perplexity is None else f"  perplexity {check.perplexity:.1f}"
    err().print(
        f"{stage}  step {check.step:,} of {steps:,}{loss}  floor {check.floor:.3f}{perplexity}"
        f"  {check.seconds:.0f} s",
        markup=False,
    )


def _print_note(message: str) -> None:
    err().print(f"note: {message}", markup=False, soft_wrap=True)


def _show(report: dict[str, Any]) -> None:
    rows = [(name, value) for name, value in report["floors"].items()]
    title = (
        f"Floor on {report['data']['validation_sessions']:,} held-out sessions (lower is better)"
    )
    out().print(table(title, ["encoder", f"1 − coverage@{report['k']}"], rows, numbers=[1]))
    out().print(f"nextquery ingest LOG --encoder {report['out']} --out POOL", markup=False)
