"""Commands that evaluate: replay, report, reproduce, compare, estimate, and list policies."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli import options as o
from nextquery.cli import options as s
from nextquery.cli import output
from nextquery.cli.options import (
    AsJson,
    Cluster,
    check_not_both,
    encoding_on,
    moment,
    stdout_to_stderr,
    tasks_on,
)
from nextquery.cli.output import Stages, err, out, print_json, table

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.build.ingest import Personal
    from nextquery.research.replay.work import Progress
    from nextquery.research.report import CompareOptions
    from nextquery.service.evaluate import Evaluation
    from nextquery.sessions import Sessions


def algorithms(as_json: AsJson = False) -> None:
    """List the policies: assumptions, parameters with their defaults, references."""
    from nextquery.policies.registry import described

    rows = described()
    if as_json:
        print_json(rows)
        return
    columns = ["name", "assumes", "parameters", "reference"]
    shown = [
        (_name(row), row["assumptions"], _parameters(row["parameters"]), row["reference"])
        for row in rows
    ]
    out().print(table("Policies (--policy)", columns, shown))
    out().print("* the order of rewards matters: in the library and in anchored experiments only")


def _name(row: dict[str, Any]) -> str:
    return f"{row['name']} *" if row["order_matters"] else str(row["name"])


def _parameters(params: dict[str, Any]) -> str:
    given = {key: value for key, value in params.items() if key != "seed"}
    return ", ".join(f"{key}={'none' if value is None else value}" for key, value in given.items())


def evaluate(
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A policy that did not run, or a variant, like lin-ucb-shared@alpha=0.1; "
            "repeatable.",
        ),
    ],
    pool: Annotated[str | None, typer.Option(help="The pool that the service serves.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="First moment to use, like 2026-03-01T12:00 (UTC if not said); policies learn "
            "from all before, too.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="First moment not to use.")
    ] = None,
    store: s.StoreUrl = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Estimate the hit rates of policies that did not run, from the propensities in the event log.

    Each policy learns from the log in its order, and is asked about every decision with what it
    could know then. Pass the settings of the service. Changes nothing, and may run beside it.
    """
    from nextquery.arms import ArmPool
    from nextquery.errors import InvalidInput

    settings = s.load_settings({"store": store, "pool": pool}, more=set, config=config).settings
    from nextquery.service.evaluate import evaluate as run
    from nextquery.service.log.store import Store

    if settings.pool is None:
        raise InvalidInput(
            "the candidates are found again in the pool, and no pool is set. Pass the one that the "
            "service serves: --pool POOL."
        )
    span = {"since": moment(since, "--since"), "until": moment(until, "--until")}
    opened = Store.open(settings.store, create=False)
    try:
        with Stages() as stages:
            done = run(
                opened,
                ArmPool.open(settings.pool),
                policy,
                settings.engine_options(),
                **span,
                progress=stages,
            )
    finally:
        opened.close()
    if as_json:
        print_json(done.to_dict())
    else:
        _show(done)


def _show(done: "Evaluation") -> None:
    title = f"{done.used:,} decisions of {done.sessions:,} sessions"
    parts = list(done.log) if done.slates else list(done.log)[:1]
    ran = ", ".join(done.ran)
    rows = [[ran, part, "it ran", *_cells(done.log[part])] for part in parts]
    for one in done.policies:
        for part in parts:
            found = one.estimates[part]
            rows += [[one.policy, part, name, *_cells(found[name])] for name in found]
    columns = ["policy", "hit rate of the", "estimate", "mean", "95% from", "to", "worth slates"]
    out().print(table(title, columns, rows, numbers=[3, 4, 5, 6]))
    unused = list(done.left_out.items())
    if unused:
        out().print(table("Not used", ["decisions", ""], [(n, why) for why, n in unused]))
    if done.erased_events:
        out().print(f"{done.erased_events:,} erased events say nothing any more.")
    for warning in done.warnings:
        err().print(f"warning: {warning}", markup=False, soft_wrap=True)
    for one in done.policies:
        for warning in one.warnings:
            err().print(f"warning: {one.policy}: {warning}", markup=False, soft_wrap=True)


def _cells(estimate: tuple[float, float, float, float]) -> list[str]:
    mean, low, high, effective = estimate
    return [f"{mean:.4f}", f"{low:.4f}", f"{high:.4f}", f"{effective:,.0f}"]


Run = Annotated[
    Path, typer.Option("--out", help="The folder of the run; an interrupted run resumes from it.")
]
Processes = Annotated[
    int | None, typer.Option(min=1, help="Parallel processes; one per core by default.")
]


ONLY = {
    "anchored": ("anchors", "rounds", "alpha"),
    "stream": ("sessions", "since", "until", "warm", "shown", "repeat", "returns", "arms"),
}
"""Options that only one protocol has."""


def replay(
    context: typer.Context,
    pool_folder: Annotated[Path, typer.Argument(metavar="POOL", help="A pool that ingest wrote.")],
    to: Run,
    protocol: Annotated[
        str, typer.Option(autocompletion=lambda: list(ONLY), help="anchored or stream.")
    ] = "anchored",
    anchors: Annotated[int, typer.Option(min=1, help="Sessions to sample (anchored).")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds T per anchor (anchored).")] = 1000,
    selection: Annotated[
        list[str],
        typer.Option(
            autocompletion=output.selections,
            help="max-utility, random, zooming, threshold or sampled; or a variant like "
            "max-utility@utility=log-det,optimizer=greedi,partitions=8; in the stream also "
            "max-utility@anchor=FOLDER, around the vector that a model of rin predicts. "
            "Repeatable.",
        ),
    ] = ["max-utility"],  # noqa: B006  (typer only reads it)
    policy: Annotated[
        list[str],
        typer.Option(
            autocompletion=output.policies,
            help="lin-ucb-memory (stream only), lin-ucb, lin-ucb-published, lin-ucb-shared, "
            "lin-ucb-feedback, lin-ts, lin-ts-interaction, most-similar, most-similar-first, "
            "random; many-armed: ucb1, epsilon-greedy, thompson, moss, moss-anytime, ucb-f, "
            "ucb-air, subsampled-greedy, subsampled-ucb, quantile-moss, ckl-ucb, oslb; many-armed, "
            "anchored only: moss-plus-plus, empirical-moss-plus-plus, parallel-moss, k-failure, "
            "m-run, non-recalling-m-run, m-learning, two-target, adaptive-zooming; "
            "stream only: popularity, similarity-support, n-gram, vmm, ar, sr, s-knn, vs-knn, "
            "stan, vstan, and with a model (gru4rec@model=FOLDER) gru4rec, sasrec, "
            "rin, acg, cfan; or a variant "
            "like lin-ucb@alpha=0.1. `nextquery algorithms` describes them. Repeatable.",
        ),
    ] = [],  # noqa: B006
    k: Annotated[
        list[int], typer.Option("-k", "--k", help="Size of the candidate set; repeatable.")
    ] = [250],  # noqa: B006
    epsilon: Annotated[list[float], typer.Option(help="Similarity threshold; repeatable.")] = [0.5],  # noqa: B006
    reading: Annotated[
        list[str],
        typer.Option(
            autocompletion=output.readings,
            help="example, defined, joint or one-side; repeatable.",
        ),
    ] = ["example"],  # noqa: B006
    alpha: Annotated[
        list[float],
        typer.Option(help="α of LinUCB; the policy's own by default (anchored); repeatable."),
    ] = [],  # noqa: B006
    schedule: Annotated[
        list[str],
        typer.Option(
            autocompletion=output.schedules,
            help="Growth of the candidate set: none, bump, power or lambert; or a variant like "
            "power@beta=1,start=5. Repeatable.",
        ),
    ] = ["none"],  # noqa: B006
    seed: Annotated[
        list[int], typer.Option(help="Random seed of policies and draws; repeatable (anchored).")
    ] = [0],  # noqa: B006
    anchor_seed: Annotated[
        int, typer.Option(min=0, help="Random seed that draws the anchors (anchored).")
    ] = 0,
    sessions: Annotated[
        int, typer.Option(min=1, help="Score since the last so many sessions began (stream).")
    ] = 500,
    since: Annotated[
        str | None, typer.Option(help="Score since a date instead, like 2018-01-01 (stream).")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Leave out what is dated at this date or later (stream).")
    ] = None,
    warm: Annotated[
        int, typer.Option(min=0, help="Sessions before them for the warm start (stream).")
    ] = 1000,
    shown: Annotated[
        int, typer.Option(min=1, max=20, help="Recommendations shown at each step (stream).")
    ] = 10,
    repeat: Annotated[
        bool,
        typer.Option(help="Whether a session may be shown the same query again (stream)."),
    ] = True,
    returns: Annotated[
        bool,
        typer.Option("--returns", help="Allow recommending a session's earlier queries (stream)."),
    ] = False,
    arms: Annotated[str, typer.Option(help="Arms to recommend: seen or all (stream).")] = "seen",
    processes: Processes = None,
    cluster: Cluster = None,
) -> None:
    """Replay past sessions with every combination of the given options.

    Results go to results.csv (stream: stream.csv) in --out. To resume an interrupted run, run the
    same command again.
    """
    import nextquery as nq
    from nextquery.checks import one_of
    from nextquery.policies.registry import SERVED
    from nextquery.research import replay as experiments
    from nextquery.research.replay.players import STREAM_POLICIES

    one_of(protocol, "protocol", ("anchored", "stream"))
    check_used(context, protocol)
    check_not_both(cluster, processes)
    pool = nq.ArmPool.open(pool_folder)
    past = experiments.sessions_of(pool)
    how: dict[str, Any] = {"processes": processes}
    how["each"] = tasks_on(cluster, writes=to, reads=pool_folder)
    if protocol == "anchored":
        note_fewer_anchors(past, anchors, held_out_of(pool))
    with Stages() as stages, stdout_to_stderr():
        if protocol == "anchored":
            grid = experiments.Options(
                anchors=anchors,
                rounds=rounds,
                selections=selection,
                policies=policy or ["lin-ucb"],
                k=k,
                epsilon=epsilon,
                reading=reading,
                alpha=alpha or [None],
                schedule=schedule,
                seeds=seed,
                anchor_seed=anchor_seed,
                encoder=encoder_name(pool),
                held_out=held_out_of(pool),
            )
            experiments.run_grid(pool, past, to, grid, progress_of(stages), **how)
        else:
            plain = [n for n in STREAM_POLICIES if arms == "seen" or not n.startswith(SERVED)]
            stream = experiments.StreamOptions(
                sessions=sessions,
                since=since,
                until=until,
                warm=warm,
                shown=shown,
                repeat=repeat,
                returns=returns,
                selection=single("selection", selection),
                k=single("k", k),
                epsilon=single("epsilon", epsilon),
                reading=single("reading", reading),
                schedule=single("schedule", schedule),
                pool=arms,
                seed=single("seed", seed),
                policies=policy or plain,
            )
            experiments.run_stream(pool, past, to, stream, progress_of(stages), **how)
    out().print(str(to), markup=False, soft_wrap=True)
    err().print(f"next: nextquery report {to}", markup=False)


def note_fewer_anchors(sessions: "Sessions", wanted: int, last: int) -> None:
    """Say so if the log has fewer sessions to draw anchors from than were asked for."""
    from nextquery.research.replay.cells import draw_anchors

    count = len(draw_anchors(sessions, wanted, 0, last).sessions)
    if count < wanted:
        where = f"the {last:,} held-out sessions" if last else "this log"
        err().print(
            f"note: {wanted:,} anchors were asked for, and only {count:,} of {where} have a next "
            "query: these are played. For more, ingest a longer log, or a larger --hold-out.",
            markup=False,
        )


def check_used(context: typer.Context, protocol: str) -> None:
    """Raise an error for an option that this protocol would ignore."""
    from nextquery.errors import InvalidInput

    other = "stream" if protocol == "anchored" else "anchored"
    for option in context.command.params:
        if option.name not in ONLY[other] or context.params[option.name] == option.default:
            continue
        if other == "stream":
            raise InvalidInput(
                f"the protocol anchored has no {option.opts[0]}: it plays rounds on sampled "
                "sessions, not a log in order of time. Leave it out, or use --protocol stream."
            )
        alpha = " Set α in a policy's name, like lin-ucb-shared@alpha=0.1."
        raise InvalidInput(
            f"the stream has no {option.opts[0]}. Leave it out, or use --protocol anchored."
            + (alpha if option.name == "alpha" else "")
        )


def single(name: str, values: list[Any]) -> Any:
    """Return the only value of an option that the stream takes once."""
    from nextquery.errors import InvalidInput

    if len(values) != 1:
        raise InvalidInput(
            f"the stream takes one --{name}; received {len(values)}: {values}. Pass one."
        )
    return values[0]


def encoder_name(pool: "ArmPool") -> str:
    """Return the name of a pool's encoder for the results; empty if it has none."""
    return "" if pool.encoder is None else pool.encoder.name


def held_out_of(pool: "ArmPool") -> int:
    """Return the number of newest sessions, unseen by the pool's encoder, to draw anchors from.

    Those of the warm start are not among them.
    """
    return 0 if pool.origin is None else pool.origin.for_replays


def progress_of(stages: Stages) -> "Progress":
    """Return a progress callback that shows one bar for each kind of piece."""

    def update(done: int, total: int, label: str) -> None:
        stages(stage_of(label), done / total)

    return update


def stage_of(label: str) -> str:
    """Return the bar that a piece belongs to.

    >>> stage_of("stream select 3"), stage_of("random 10 lin-ts")
    ('stream: select candidates', 'anchored: play')
    """
    if label.startswith("costs"):
        return "measure costs"
    if label.startswith("stream"):
        selecting = label.startswith("stream select ")
        return "stream: select candidates" if selecting else "stream: recommend and learn"
    return "anchored: select candidates" if label.startswith("select ") else "anchored: play"


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder that replay or reproduce wrote.")
    ],
) -> None:
    """Make the report of a run: Markdown, one HTML page, and figures as PNG and SVG."""
    from nextquery.research import report as reports

    page = reports.report(run)
    out().print(f"{page}\n{page.with_suffix('.md')}", soft_wrap=True, markup=False)


def reproduce(
    to: Run,
    log: Annotated[
        str,
        typer.Argument(help="A log, a pool that ingest wrote, or a built-in log: topics or core."),
    ] = "topics",
    encoder: Annotated[
        str,
        typer.Option(
            help="As in ingest: a name, or the folder that train wrote. A pool keeps its own."
        ),
    ] = "auto",
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    time_format: o.TimeFormat = None,
    query: o.Query = None,
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of newest sessions of two or more queries to hide from the encoder of a "
            "log; anchors come from them. A pool keeps its own number.",
        ),
    ] = 1000,
    anchors: Annotated[
        int, typer.Option(min=1, help="Sessions to sample; 100 in the paper.")
    ] = 300,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds per anchor; 1000 in the paper.")
    ] = 1000,
    stream: Annotated[
        int, typer.Option(min=0, help="Score since the last so many sessions began; 0: no stream.")
    ] = 500,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the anchors, the policies and the stream.")
    ] = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="Average the policies over so many seeds, on the same anchors (anchored)."
        ),
    ] = 5,
    zooming: Annotated[
        float,
        typer.Option(
            min=-1, max=1, help="Similarity threshold of zooming; higher if most arms reach it."
        ),
    ] = 0.5,
    processes: Processes = None,
    cluster: Cluster = None,
) -> None:
    """Repeat the paper's evaluation on a log and write the report: figures, tables, numbers.

    To resume an interrupted run, run the same command again.
    """
    from nextquery.arms import ArmPool
    from nextquery.research import replay
    from nextquery.research import report as reports

    check_not_both(cluster, processes)
    with Stages() as stages, stdout_to_stderr():
        columns = {"session": session, "user": user, "time": time, "query": query}
        columns["time_format"] = time_format
        folder = pool_of(log, to, encoder, hold_out, encoding_on(cluster), stages, columns)
        pool = ArmPool.open(folder)
        if note := saw_anchors(encoder, held_out_of(pool)):
            err().print(note, markup=False, soft_wrap=True)
        past = replay.sessions_of(pool)
        note_fewer_anchors(past, anchors, held_out_of(pool))
        page = reports.reproduce(
            pool,
            past,
            to,
            anchors=anchors,
            rounds=rounds,
            stream_sessions=stream,
            encoder=encoder_name(pool),
            held_out=held_out_of(pool),
            seed=seed,
            seeds=seeds,
            zooming=zooming,
            processes=processes,
            each=tasks_on(cluster, writes=to, reads=folder),
            progress=progress_of(stages),
        )
    out().print(str(page), markup=False, soft_wrap=True)
    err().print(f"figures and tables: {page.parent}", markup=False, soft_wrap=True)


def pool_of(
    log: str,
    to: Path,
    encoder: str,
    hold_out: int,
    encoding: dict[str, Any],
    stages: Stages,
    columns: dict[str, str | None] | None = None,
) -> Path:
    """Return the given pool, or one made from the log, once, inside the folder of the run.

    `columns` are the names of a log's columns, as options of `LogOptions`.
    """
    import json
    import shutil

    from nextquery.build.ingest import ingest
    from nextquery.build.stages import fingerprint
    from nextquery.errors import InvalidInput
    from nextquery.logs import LogOptions
    from nextquery.research.replay.results import write_atomically

    if (Path(log) / "manifest.json").exists():
        return Path(log)
    source = o.source([log])
    options = LogOptions.of(source, **columns or {})
    made_from = [fingerprint(source, options), encoder, hold_out]
    record = to / "made_from.json"
    if record.exists():
        if json.loads(record.read_text(encoding="utf-8")) != made_from:
            raise InvalidInput(
                f"{to} contains a run on another log, encoder or number of held-out sessions. Use "
                "the options it was started with, or another --out."
            )
        if (to / "pool" / "manifest.json").exists():
            return to / "pool"
    new = not to.exists()
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(made_from).encode())
    pool, secret = to / "pool", to / ".people-secret"
    how: dict[str, Any] = {"encoder": encoder, "hold_out": hold_out, "personal": _people(secret)}
    try:
        ingest(source, pool, options, progress=stages, **how, **encoding)
    except InvalidInput:  # a log that cannot be read leaves nothing
        record.unlink()
        secret.unlink()
        if new:
            shutil.rmtree(to)
        raise
    secret.unlink()
    return pool


def saw_anchors(encoder: str, last: int) -> str:
    """Return a note if a trained encoder has seen sessions that anchors are drawn from."""
    import json

    from nextquery.build.train import REPORT

    report = Path(encoder) / REPORT
    if not report.is_file():
        return ""
    left_out = int(json.loads(report.read_text(encoding="utf-8")).get("hold_out", 0))
    if left_out >= last:
        return ""
    return (
        f"note: {encoder} was trained without the newest {left_out:,} sessions, and anchors come "
        f"from the newest {last:,}, so it has seen some answers. Train it with the same --hold-out."
    )


def _people(file: Path) -> "Personal":
    """Keep whose sessions they were, under a secret that is deleted when the pool is complete.

    Then nobody can be recognised in it, but people's own pasts can be replayed. Until then the
    secret stays in a file, so that an interrupted run can resume.
    """
    import secrets

    from nextquery.build.ingest import Personal

    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32), encoding="utf-8")
    return Personal(file.read_text(encoding="utf-8"), required=False)


HITS, COSTS = range(1, 6), range(6, 10)
"""The columns of the two tables, since one would be too wide for a terminal."""


def compare(
    log: Annotated[
        str,
        typer.Argument(
            help="A log, a pool that ingest wrote (with options of its own), or a built-in log: "
            "topics or core."
        ),
    ],
    to: Run,
    sessions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Score the answers since the last so many sessions began; by default 1,000, or a "
            "quarter of the sessions of two or more queries if they are fewer than 4,000.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Score since a date instead, like 2018-01-01.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Leave out what is dated at this date or later.")
    ] = None,
    policy: Annotated[
        list[str],
        typer.Option(
            autocompletion=output.policies,
            help="What to compare, by name, as in replay; all by default. The served default is "
            "always there. Repeatable.",
        ),
    ] = [],  # noqa: B006  (typer only reads it)
    model: Annotated[
        list[Path],
        typer.Option(
            help="The folder of a model that `nextquery train POOL --method gru4rec --until DATE` "
            "wrote; it joins the others. Repeatable."
        ),
    ] = [],  # noqa: B006
    tune: Annotated[
        bool,
        typer.Option(help="Tune stan and vstan on the sessions before those that are scored."),
    ] = True,
    returns: Annotated[
        bool, typer.Option("--returns", help="Allow recommending a session's earlier queries.")
    ] = False,
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    time_format: o.TimeFormat = None,
    query: o.Query = None,
    encoder: Annotated[str, typer.Option(help="As in ingest. A pool keeps its own.")] = "auto",
    hold_out: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Newest sessions of two or more queries to hide from the encoder of a log; by "
            "default twice --sessions, since as many before them are for tuning.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random draw.")] = 0,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Compare every recommender on a log by the clock, and say which to use.

    At each step only what is dated before its query is known. The results go to compare.csv and
    compare.md in --out. To resume an interrupted run, run the same command again.
    """
    from nextquery.arms import ArmPool
    from nextquery.research import replay
    from nextquery.research import report as reports
    from nextquery.research.replay.results import read_rows
    from nextquery.research.report.compare import (
        COMPARED,
        MOST,
        TUNING_FILE,
        compare_table,
        read_compared,
        tuned_note,
        verdict,
        window_for,
    )
    from nextquery.research.report.tables import stream_note

    options = reports.CompareOptions(
        sessions=MOST if sessions is None else sessions,
        tuning_sessions=MOST if sessions is None else sessions,
        since=since,
        until=until,
        recommenders=policy or COMPARED,
        models=model,
        tune=tune,
        returns=returns,
        seed=seed,
    )
    with Stages() as stages:
        hidden = options.sessions + options.tuning_sessions if hold_out is None else hold_out
        columns = {"session": session, "user": user, "time": time, "query": query}
        columns["time_format"] = time_format
        pool = ArmPool.open(pool_of(log, to, encoder, hidden, {}, stages, columns))
        past = replay.sessions_of(pool)
        if sessions is None:
            options = options.of_length(window_for(past))
        if note := saw_answers(pool, past, options):
            err().print(note, markup=False, soft_wrap=True)
        page = reports.run_comparison(
            pool, past, to, options, progress_of(stages), processes=processes
        )
    rows, tuned = read_compared(to), read_rows(to / TUNING_FILE)
    if as_json:
        print_json({"use": verdict(rows), "rows": rows, "tuning": tuned, "page": str(page)})
        return
    made = compare_table(rows)
    for title, shown in (("By the clock", HITS), ("What it costs", COSTS)):
        cells = [[row[0], *(row[at] for at in shown)] for row in made.rows]
        header = [made.header[0], *(made.header[at] for at in shown)]
        out().print(table(title, header, cells, numbers=range(1, len(header))))
    for line in (stream_note(to), tuned_note(tuned), f"written: {page}", verdict(rows)):
        if line:
            out().print(line, markup=False, soft_wrap=True)


def saw_answers(pool: "ArmPool", past: "Sessions", options: "CompareOptions") -> str:
    """Return a note if the pool's encoder was fitted on sessions that began in the window."""
    import numpy as np

    from nextquery.research.report.compare import started, window_for

    if pool.encoder is None:
        return ""
    start, hidden = started(pool, past, options).start, held_out_of(pool)
    newest = np.sort(past.times)[len(past.times) - hidden :]
    begun = past.times[past.lengths > 1]
    needed = int((begun >= start).sum())
    hidden_since = newest[0] if hidden else np.inf
    fitted = int(((begun >= start) & (begun < hidden_since)).sum())
    if not fitted:
        return ""
    wanted = needed + options.tuning_sessions
    advice = (
        f"Make the pool with --hold-out {wanted} or more."
        if wanted <= len(begun) // 2  # ingest hides at most half
        else f"Score fewer sessions, such as --sessions {window_for(past)}."
    )
    return (
        f"note: the encoder was fitted on {fitted:,} of the {needed:,} sessions since the "
        f"first step that is scored, so similar queries look better than they would have then. "
        f"{advice}"
    )
