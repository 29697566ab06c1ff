"""`nextquery replay`: run an experiment grid or a stream on the sessions of a pool."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli import complete
from nextquery.cli.cluster import Cluster, check_not_both, stdout_to_stderr, tasks_on
from nextquery.cli.output import Stages, err, out

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.research.replay.work import Progress
    from nextquery.sessions import Sessions

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
            autocompletion=complete.selections,
            help="max-utility, random, zooming, threshold or sampled; or a variant like "
            "max-utility@utility=log-det,optimizer=greedi,partitions=8; in the stream also "
            "max-utility@anchor=FOLDER, around the vector that a model of rin predicts. "
            "Repeatable.",
        ),
    ] = ["max-utility"],  # noqa: B006  (typer only reads it)
    policy: Annotated[
        list[str],
        typer.Option(
            autocompletion=complete.policies,
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
            autocompletion=complete.readings,
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
            autocompletion=complete.schedules,
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
