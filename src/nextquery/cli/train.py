"""`nextquery train`: train an encoder, or a neural rival, on a log."""

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli import options as o
from nextquery.cli.output import Stages, err, out, print_json, table
from nextquery.encode.train import METHODS, TrainOptions
from nextquery.errors import InvalidInput
from nextquery.policies.registry import split
from nextquery.research.neural.registry import METHODS as RIVAL_METHODS
from nextquery.research.neural.registry import Running, parameters_of
from nextquery.research.replay.players import unix_time

if TYPE_CHECKING:
    from nextquery.encode.train.loop import Check
    from nextquery.logs import LogOptions

_D = TrainOptions()


_RUNNING = tuple(field.name for field in fields(Running))
_ENCODER_ONLY = tuple(set(TrainOptions.__dataclass_fields__) - {*_RUNNING, "method"})
_RIVAL_ONLY = ("until", "encoder", "clicks")
CLEANING_OPTIONS = (
    *(
        "session",
        "user",
        "time",
        "time_format",
        "query",
        "gap",
        "profile",
        "skip",
        "min_queries",
        "max_queries",
    ),
    *("max_chars", "language", "min_users", "blocklist", "format", "memory_limit", "threads"),
)


def train(
    context: typer.Context,
    log: o.Log,
    to: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    method: Annotated[
        str,
        typer.Option(
            autocompletion=lambda: [*METHODS, *RIVAL_METHODS],
            help=f"An encoder: {', '.join(METHODS)}. A recommender, from a log or a pool: "
            f"{', '.join(RIVAL_METHODS)}; its parameters follow the name, like "
            "gru4rec@hidden=64,epochs=20.",
        ),
    ] = _D.method,
    until: Annotated[
        str | None,
        typer.Option(help="Learn only what is dated before, like 2018-01-01 (recommenders)."),
    ] = None,
    clicks: Annotated[
        Path | None,
        typer.Option(
            help="An export of the service's log (nextquery export --format parquet), for "
            "recommenders that learn from accepted recommendations (cfan)."
        ),
    ] = None,
    encoder: Annotated[
        str,
        typer.Option(help="Encoder of a log's queries, as for ingest (recommenders)."),
    ] = "auto",
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
    time_format: o.TimeFormat = None,
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
    """Train an encoder or a neural recommender on a log.

    Encoders: the published BERT, or one trained on queries that occur together. Recommenders, for
    replays: they learn from a pool's sessions, or from a log. What is at --out is kept until the
    new one is complete. To resume an interrupted run from its last checkpoint, run the same command
    again.
    """
    given = dict(locals())
    rival = split(method)[0] in RIVAL_METHODS
    check_belongs(context, _ENCODER_ONLY if rival else _RIVAL_ONLY, method, rival)
    if rival:
        _train_rival(context, given)
    else:
        _train_encoder(given)


def check_belongs(context: typer.Context, foreign: Iterable[str], method: str, rival: bool) -> None:
    """Raise an error for an option that this method would ignore."""
    wrong = [name for name in foreign if was_given(context, name)]
    if not wrong:
        return
    option = next(each.opts[0] for each in context.command.params if each.name == wrong[0])
    advice = (
        f"The parameters of {split(method)[0]} follow its name, like {split(method)[0]}@hidden=64: "
        f"{', '.join(parameters_of(method))}."
        if rival
        else f"It belongs to {', '.join(RIVAL_METHODS)}."
    )
    raise InvalidInput(f"the method {split(method)[0]} has no {option}. {advice}")


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _log_options(given: dict[str, Any], files: Any) -> "LogOptions":
    from nextquery.logs import LogOptions

    options = {name: given[name] for name in CLEANING_OPTIONS}
    gap, skip = options.pop("gap"), tuple(options.pop("skip"))
    return LogOptions.of(files, gap_minutes=gap, skip=skip, **options)


def _train_encoder(given: dict[str, Any]) -> None:
    from nextquery.build.train import train as run

    options = TrainOptions(**{name: given[name] for name in TrainOptions.__dataclass_fields__})
    files = o.source(given["log"])
    cleaning = _log_options(given, files)
    with Stages() as stages:
        callbacks: Any = {"progress": stages, "on_check": _print_check, "note": _print_note}
        report = run(files, given["to"], options, cleaning, hold_out=given["hold_out"], **callbacks)
    if given["as_json"]:
        print_json(report)
    else:
        _show(report)


def _train_rival(context: typer.Context, given: dict[str, Any]) -> None:
    from nextquery.research.neural.train import is_pool
    from nextquery.research.neural.train import train as run

    running = Running(**{name: given[name] for name in _RUNNING})
    until = None if given["until"] is None else unix_time(given["until"], "until")
    files = o.source(given["log"])
    source, cleaning = files, None
    if len(files) == 1 and is_pool(files[0]):
        source = files[0]
        for name in (*CLEANING_OPTIONS, "encoder"):
            if was_given(context, name):
                raise InvalidInput(
                    f"{source} is a pool: it was cleaned and encoded before, so --{name} has no "
                    "effect. Leave it out, or train from the log."
                )
    else:
        cleaning = _log_options(given, files)
    with Stages() as stages:
        report = run(
            source,
            given["to"],
            given["method"],
            running,
            cleaning,
            encoder=given["encoder"],
            until=until,
            hold_out=given["hold_out"],
            clicks=given["clicks"],
            progress=stages,
            on_check=partial(_print_check, floor=RIVAL_METHODS[split(given["method"])[0]].floor),
            note=_print_note,
        )
    if given["as_json"]:
        print_json(report)
    else:
        _show_rival(report)


def _print_check(stage: str, check: "Check", steps: int, floor: str = "floor") -> None:
    loss = "" if check.loss is None else f"  loss {check.loss:.4f}"
    perplexity = "" if check.perplexity is None else f"  perplexity {check.perplexity:.1f}"
    err().print(
        f"{stage}  step {check.step:,} of {steps:,}{loss}  {floor} {check.floor:.3f}{perplexity}"
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


def _show_rival(report: dict[str, Any]) -> None:
    measured, data = report["validation"], report["data"]
    rows = [("recall@20", f"{measured['recall']:.3f}"), ("MRR@20", f"{measured['mrr']:.3f}")]
    title = (
        f"The next query among {measured['among']}, at {measured['steps']:,} steps of held-out "
        "sessions"
    )
    out().print(table(title, ["", report["method"]], rows, numbers=[1]))
    name = f"{report['method']}@model={report['out']}"
    out().print(f"nextquery replay POOL --protocol stream --policy {name} --out RUN", markup=False)
    err().print(f"note: it learnt from {data['training_sessions']:,} sessions", markup=False)
