"""`nextquery train`: an encoder that learns from a log."""

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
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = _D.method,
    start: Annotated[
        str | None,
        typer.Option(help="A sentence-transformers model, by name or folder, to start from."),
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimensions after the projection.")] = _D.dim,
    vocabulary: Annotated[int, typer.Option(help="Word pieces learnt.")] = _D.vocabulary,
    layers: Annotated[int, typer.Option(help="Of the BERT from scratch.")] = _D.layers,
    hidden: Annotated[int, typer.Option(help="Its hidden size.")] = _D.hidden,
    heads: Annotated[int, typer.Option(help="Its attention heads.")] = _D.heads,
    intermediate: Annotated[int, typer.Option(help="Its inner size.")] = _D.intermediate,
    epochs: Annotated[int, typer.Option(help="Of masked-LM.")] = _D.epochs,
    mask: Annotated[float, typer.Option(help="Share of tokens hidden.")] = _D.mask,
    mlm_rate: Annotated[float, typer.Option(help="Step size of masked-LM.")] = _D.mlm_rate,
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens in a step of masked-LM.")
    ] = _D.batch_tokens,
    max_tokens: Annotated[int, typer.Option(help="A longer query is cut.")] = _D.max_tokens,
    max_line: Annotated[int, typer.Option(help="A longer line is cut in two.")] = _D.max_line,
    steps: Annotated[int, typer.Option(help="Contrastive steps, at most.")] = _D.steps,
    pairs: Annotated[int, typer.Option(help="Pairs in a contrastive step.")] = _D.pairs,
    temperature: Annotated[float, typer.Option(help="Of InfoNCE.")] = _D.temperature,
    rate: Annotated[
        float | None,
        typer.Option(help="Contrastive step size; by default by start and size of the log."),
    ] = None,
    weight_decay: Annotated[
        float, typer.Option(help="Of the contrastive stage.")
    ] = _D.weight_decay,
    residual: Annotated[
        bool, typer.Option("--residual", help="Add a token table that is trained along.")
    ] = False,
    checks: Annotated[int, typer.Option(help="Looks at validation sessions.")] = _D.checks,
    patience: Annotated[int, typer.Option(help="Looks without gain before the end.")] = _D.patience,
    seed: Annotated[int, typer.Option(help="Of everything drawn.")] = _D.seed,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = _D.device,
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = _D.precision,
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Time between two checkpoints.")
    ] = _D.checkpoint_seconds,
    static: Annotated[
        bool, typer.Option("--static/--no-static", help="Distil into a token table too.")
    ] = True,
    hold_out: Annotated[
        int, typer.Option(help="Newest sessions that training does not see, for replays.")
    ] = 0,
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    query: o.Query = None,
    gap: o.Gap = 30.0,
    profile: o.Profile = "text",
    skip: o.Skip = [],  # noqa: B006  (typer reads it, nobody changes it)
    min_queries: o.MinQueries = 4,
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
    """Train an encoder on a log: the published BERT, or one that learns what is asked together.

    An older encoder at --out stands until the new one is whole. An interrupted run goes on from
    its last checkpoint when it is started again.
    """
    from nextquery.logs import LogOptions
    from nextquery.train import train as run

    given = dict(locals())
    options = TrainOptions(**{name: given[name] for name in TrainOptions.__dataclass_fields__})
    cleaning = LogOptions(
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
    files = o.source(log)
    with Stages() as stages:
        watched: Any = {"progress": stages, "say": _say, "note": _note}
        report = run(files, to, options, cleaning, hold_out=hold_out, **watched)
    if as_json:
        print_json(report)
    else:
        _show(report)


def _say(stage: str, check: "Check", steps: int) -> None:
    loss = "" if check.loss is None else f"  loss {check.loss:.4f}"
    guess = "" if check.perplexity is None else f"  perplexity {check.perplexity:.1f}"
    err().print(
        f"{stage}  step {check.step:,} of {steps:,}{loss}  floor {check.floor:.3f}{guess}"
        f"  {check.seconds:.0f} s",
        markup=False,
    )


def _note(said: str) -> None:
    err().print(f"note: {said}", markup=False, soft_wrap=True)


def _show(report: dict[str, Any]) -> None:
    rows = [(name, value) for name, value in report["floors"].items()]
    title = (
        f"Floor on {report['data']['validation_sessions']:,} held-out sessions (lower is better)"
    )
    out().print(table(title, ["encoder", f"1 − coverage@{report['k']}"], rows, numbers=[1]))
    out().print(f"nextquery ingest LOG --encoder {report['out']} --out POOL", markup=False)
