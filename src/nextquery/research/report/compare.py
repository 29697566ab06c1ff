"""Comparison: every recommender on one stream, its costs, and which to use.

The log has two windows. Variants are tuned on the sessions before those that are scored. Costs
are seconds to train, and milliseconds and bytes to serve. Times are those of the processor, in
one thread, so that other work on the machine does not count. The result file is made only from
the files of the stream and the costs. A table and a verdict in one sentence follow from it.
"""

import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed, whole_number
from nextquery.errors import InvalidInput
from nextquery.memory import Moment, SessionMemory
from nextquery.policies import RandomPolicy
from nextquery.policies.registry import SERVED, split
from nextquery.recommender import Recommender
from nextquery.research.neural.serve import opened
from nextquery.research.replay.grid import update_run
from nextquery.research.replay.players import (
    Contestant,
    Stream,
    StreamOptions,
    contestant,
    driver_of,
    ranked_steps,
    unix_time,
)
from nextquery.research.replay.results import read_rows, read_run, write_atomically, write_rows
from nextquery.research.replay.stream import follow, run_stream, selections
from nextquery.research.replay.work import (
    Piece,
    Progress,
    Run,
    Work,
    begin,
    in_processes,
    label_of,
    run_missing,
    runner,
)
from nextquery.research.report.figures import Block, Heading, Paragraph, ReportTable, markdown
from nextquery.research.report.tables import interval, stream_note
from nextquery.research.rivals.registry import RIVALS, rival_named
from nextquery.research.rivals.rival import NO_CANDIDATES, Step
from nextquery.sessions import Floats, Ids, Sessions
from nextquery.warm_start import WARM_SESSIONS, OneByOne, Selections, Steps

Serve = Callable[[int], Any]
"""Makes the recommendations of the step of a number."""

_UNTIMED = 5  # first recommendations, which compile and fill caches


class Cost(NamedTuple):
    """Processor seconds to train, the median milliseconds to recommend, and bytes held meanwhile.

    Training is what happens between a pool and the first recommendation: reading the sessions, an
    index, a warm start, or the training of a model. The pool itself, with its encoder, is not
    counted. Bytes are those of the sessions, indexes, weights, and of the pool's vectors if they
    are searched.
    """

    seconds: float
    milliseconds: float
    bytes: int


def cost_piece(options: StreamOptions, name: str, timed: int) -> Piece:
    """Return the piece of work that measures a recommender."""
    what = {**options.playing, "policy": name, "timed": timed}
    return Piece("costs", label_of(["costs", name]), what)


def keep_cost(work: Work, piece: Piece) -> None:
    """Measure a recommender, and keep the result."""
    playing = dict(piece.options)
    name, timed = playing.pop("policy"), playing.pop("timed")
    cost = measured(work, StreamOptions(policies=(), **playing), name, timed)
    work.keep(piece, {name: np.array(value) for name, value in cost._asdict().items()})


def measured(work: Work, options: StreamOptions, name: str, timed: int) -> Cost:
    """Build a recommender twice: once to time it, once to count what it holds."""
    entrant = contestant(name, options.seed)
    stream = Stream.of(work.sessions, options.span, work.pool.rows_in_all)
    steps = ranked_steps(stream, options, entrant)
    last = range(max(0, len(steps.places) - timed - _UNTIMED), len(steps.places))
    began = time.process_time()
    serve, seconds = _built(work, stream, steps, options, entrant, None)
    seconds += time.process_time() - began
    times = []
    for at in last:
        began = time.process_time()
        serve(at)
        times.append(time.process_time() - began)
    del serve
    warm = None
    if entrant.policy is not None and not options.kept:  # what was selected for it before
        places = stream.warm_places(memory=entrant.policy.needs_memory)
        warm = iter(list(selections(work, stream, options, places)))
    gc.collect()
    tracemalloc.start()
    try:
        held = _built(work, stream, steps, options, entrant, warm)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        del held
    finally:
        tracemalloc.stop()
    if entrant.uses_selection:
        size += work.pool.vectors.nbytes
    return Cost(seconds, 1000 * float(np.median(times[min(_UNTIMED, len(times) - 1) :])), size)


def _built(
    work: Work,
    stream: Stream,
    steps: Steps,
    options: StreamOptions,
    entrant: Contestant,
    warm: Selections | None,
) -> tuple[Serve, float]:
    """Return how a recommender serves a step, and the seconds it was trained before.

    `warm` are the candidates of its warm start, or None to select them.
    """
    if entrant.rival is not None:
        return _rival(work, stream, steps, options, entrant.rival, entrant.uses_selection)
    driver = driver_of(work, stream, options, entrant, warm)
    loop, people = driver.loop, driver.people
    select = OneByOne(loop, steps, seen=False)

    def serve(at: int) -> object:  # by what is known now, as it is served
        state = steps.session_state(int(steps.places[at]), people)
        query = loop.catalogue.place_of(int(stream.past.sessions.arms[steps.places[at]]))
        rng = loop.draws(state.session, state.trial + 1)
        return loop.rank(
            query, state, select(at, state), options.shown, rng, Moment(steps.moment(at).time)
        )

    return serve, 0.0


def _rival(
    work: Work, stream: Stream, steps: Steps, options: StreamOptions, name: str, selects: bool
) -> tuple[Serve, float]:
    # A memory of its own, with arrays of its own, so that they are counted.
    past = SessionMemory(stream.past.sessions.take(np.arange(stream.past.sessions.size)))
    rival = rival_named(name, past, pool=work.pool)
    random = Recommender(work.pool, options.selector(), RandomPolicy(), seed=options.seed)
    select = OneByOne(random, steps, seen=False)
    row, offsets = past.sessions.arms, past.sessions.offsets

    def serve(at: int) -> object:
        place = int(steps.places[at])
        session = int(np.searchsorted(offsets, place, side="right")) - 1
        moment, state = steps.moment(at), steps.session_state(place, ())
        step = Step(
            before=moment.before or 0,
            history=row[int(offsets[session]) : place + 1].tolist(),
            selected=select(at, state) if selects else NO_CANDIDATES,
            time=moment.time,
            session=session,
            returns=options.returns,
        )
        return rival.rank(step, options.shown)

    return serve, rival.trained_seconds


COMPARED = (SERVED, f"{SERVED}@personal=off", "lin-ucb-shared", "most-similar-first", *RIVALS)
"""The recommenders of a comparison, the served default first."""

VARIANTS: dict[str, tuple[str, ...]] = {
    name: tuple(f"{name}@session_days={days}" for days in (5, 30, 365, 5000))
    for name in ("stan", "vstan")
}
"""What is tuned, on an earlier window: the age of a session has no value that fits every log."""


MOST = 1000
"""Sessions to score, and sessions before them to tune on, if the log is long enough."""


def window_for(sessions: Sessions) -> int:
    """Return how many sessions to score of a log: a quarter of those with a next query, or MOST.

    Another quarter is for tuning, and half of the log is known before.

    >>> window_for(Sessions.of([[0, 1]] * 40 + [[2]])), window_for(Sessions.of([[0, 1]] * 9000))
    (10, 1000)
    """
    return min(MOST, max(1, int((sessions.lengths > 1).sum()) // 4))


@dataclass(frozen=True)
class CompareOptions:
    """A comparison of recommenders on the newest part of a log.

    Parameters
    ----------
    sessions : score the answers since the newest `sessions` sessions with a next query began.
    since, until : score the answers since this date instead; leave out what is dated later.
    warm : number of sessions before them for the policies' warm start.
    recommenders : names as in `StreamOptions.policies`; the served default joins them.
    models : folders of trained models, which join them too.
    tune : whether to tune `VARIANTS` on the sessions before the window that is scored.
    tuning_sessions : number of these sessions.
    returns : whether a session's own earlier queries may be recommended.
    seed : of every random draw.
    timed : number of recommendations to time.
    """

    sessions: int = MOST
    since: str | None = None
    until: str | None = None
    warm: int = WARM_SESSIONS
    recommenders: Sequence[str] = COMPARED
    models: Sequence[str | os.PathLike[str]] = ()
    tune: bool = True
    tuning_sessions: int = MOST
    returns: bool = False
    seed: int = 0
    timed: int = 200

    def __post_init__(self) -> None:
        whole_number(self.tuning_sessions, "tuning_sessions", at_least=1)
        whole_number(self.timed, "timed", at_least=1)
        for name in ("since", "until"):
            if (date := getattr(self, name)) is not None:
                unix_time(date, name)
        self.window()  # which checks the rest

    def of_length(self, sessions: int) -> "CompareOptions":
        """Return the options with so many sessions to score, and as many before them to tune on."""
        return replace(self, sessions=sessions, tuning_sessions=sessions)

    def window(self, names: Sequence[str] | None = None) -> StreamOptions:
        """Return the stream that is scored, of these recommenders or all."""
        return StreamOptions(
            sessions=self.sessions,
            since=self.since,
            until=self.until,
            warm=self.warm,
            returns=self.returns,
            seed=self.seed,
            policies=tuple(self.names() if names is None else names),
        )

    def names(self) -> list[str]:
        """Return the recommenders, the served default first."""
        trained = [f"{opened(folder)[0].method}@model={folder}" for folder in self.models]
        for name in trained:
            if split(name)[1]["model"] != name.partition("=")[2]:
                raise InvalidInput(
                    f"the folder of a model must have no comma in its path; received {name!r}."
                )
        return list(dict.fromkeys([SERVED, *self.recommenders, *trained]))

    def tuned(self) -> list[str]:
        """Return the recommenders that are tuned."""
        return [name for name in self.names() if name in VARIANTS] if self.tune else []

    def earlier(self, start: float) -> StreamOptions:
        """Return the stream to tune on: nothing in it is dated at or after `start`."""
        names = [variant for name in self.tuned() for variant in VARIANTS[name]]
        return StreamOptions(
            sessions=self.tuning_sessions,
            until=datetime.fromtimestamp(start, UTC).isoformat(),
            warm=self.warm,
            returns=self.returns,
            seed=self.seed,
            policies=names,
        )


def started(pool: ArmPool, sessions: Sessions, options: CompareOptions) -> Stream:
    """Return the stream that is scored."""
    return Stream.of(sessions, options.window().span, pool.rows_in_all)


FILE, COSTS = "compare.csv", "costs.csv"
COST_COLUMNS = ["recommender", "train_seconds", "serve_ms", "serve_mb"]
COLUMNS = [
    *("recommender", "hit_at_1", "hit_at_5", "hit_at_10", "mrr_at_10", "coverage"),
    *("hit_at_10_less_served", "hit_at_10_low", "hit_at_10_high"),
    *("mrr_less_served", "mrr_low", "mrr_high"),
    *COST_COLUMNS[1:],
    *("steps", "people", "start", "seed"),
]
_FIRST = 10


def compared(run: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each recommender, the best by hit@10 first.

    Intervals are of differences to the served default, on the same steps; people are resampled.
    """
    import pyarrow.parquet as pq

    columns = ["policy", "rank", "candidate", "person"]
    table = pq.read_table(run / "stream_steps.parquet", columns=columns)
    names = np.array(table["policy"].to_pylist(), dtype=object)
    ranks, covered = table["rank"].to_numpy(), table["candidate"].to_numpy()
    people = table["person"].to_numpy()[names == SERVED]
    costs = {row["recommender"]: row for row in read_rows(run / COSTS)}
    stream = read_run(run)["stream"]
    served = ranks[names == SERVED]
    rows = []
    for name in dict.fromkeys(names.tolist()):
        own = ranks[names == name]
        row: dict[str, Any] = {"recommender": name}
        row |= {f"hit_at_{m}": float(_hits(own, m).mean()) for m in (1, 5, _FIRST)}
        row |= {"mrr_at_10": float(_reciprocal(own).mean())}
        row |= {"coverage": float(covered[names == name].mean())}
        row |= _gap_columns("hit_at_10", _hits(own, _FIRST) - _hits(served, _FIRST), people)
        row |= _gap_columns("mrr", _reciprocal(own) - _reciprocal(served), people)
        row |= {column: float(costs[name][column]) for column in COST_COLUMNS[1:]}
        row |= {"steps": len(own), "people": len(np.unique(people))}
        row |= {"start": stream["start"], "seed": stream["options"]["seed"]}
        rows.append(row)
    yield from sorted(rows, key=lambda row: -row["hit_at_10"])


def read_compared(run: Path) -> list[dict[str, Any]]:
    """Return the rows of ``compare.csv``, with numbers as numbers."""
    text = ("recommender", "start")
    return [
        {name: value if name in text else float(value) for name, value in row.items()}
        for row in read_rows(run / FILE)
    ]


def cost_row(name: str, cost: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of ``costs.csv`` of a measured recommender.

    >>> cost_row("sr", {"seconds": 2.0, "milliseconds": 0.5, "bytes": 3_000_000})["serve_mb"]
    3.0
    """
    return {
        "recommender": name,
        "train_seconds": float(cost["seconds"]),
        "serve_ms": float(cost["milliseconds"]),
        "serve_mb": float(cost["bytes"]) / 1e6,
    }


def _gap_columns(name: str, values: Floats, people: Ids) -> dict[str, float]:
    mean, low, high = interval(values, people)
    return {f"{name}_less_served": mean, f"{name}_low": low, f"{name}_high": high}


def _hits(ranks: Ids, m: int) -> Floats:
    return ((ranks > 0) & (ranks <= m)).astype(np.float64)


def _reciprocal(ranks: Ids) -> Floats:
    return np.where(_hits(ranks, _FIRST) > 0, 1.0 / np.maximum(ranks, 1), 0.0)


TUNING_FILE, TUNING_COLUMNS = (
    "tuning.csv",
    ["recommender", "variant", "hit_at_10", "steps", "until", "chosen"],
)


class Tuned(NamedTuple):
    """The variants to score in place of plain names, and the rows of ``tuning.csv``."""

    chosen: dict[str, str]
    rows: list[dict[str, Any]]


def tune(
    work: Work, options: CompareOptions, start: float, run: Run, progress: Progress | None
) -> Tuned:
    """Play the variants on the earlier window, and choose the best of each by hit@10.

    The first of equals is chosen. If nothing comes before the window, nothing is tuned.
    """
    rows: list[dict[str, Any]] = []
    chosen: dict[str, str] = {}
    earlier = options.earlier(start)
    if earlier.policies:
        try:
            _, results = follow(work, earlier, run, progress)
        except InvalidInput:  # no next query is dated before the window
            results = {}
        for name in options.tuned() if results else []:
            hits = {one: _hit_share(results[one].ranks) for one in VARIANTS[name]}
            chosen[name] = max(hits, key=lambda one: hits[one])
            rows += [
                {
                    "recommender": name,
                    "variant": one,
                    "hit_at_10": hit,
                    "steps": len(results[one].ranks),
                    "until": earlier.until,
                    "chosen": int(one == chosen[name]),
                }
                for one, hit in hits.items()
            ]
    write_rows(work.out / TUNING_FILE, TUNING_COLUMNS, rows)
    return Tuned(chosen, rows)


def entered(options: CompareOptions, tuned: Tuned) -> list[str]:
    """Return the names that are scored: tuned variants in place of plain names."""
    names = [tuned.chosen.get(name, name) for name in options.names()]
    return list(dict.fromkeys(names))


def _hit_share(ranks: Any) -> float:
    return float(((ranks > 0) & (ranks <= 10)).mean())


Row = Mapping[str, Any]


def verdict(rows: Sequence[Row]) -> str:
    """Return the sentence.

    A recommender is clearly better if the 95% interval of its hit@10 less that of the served
    default is above 0. Among those, the one with the best hit@10 is named.

    >>> ours = {"recommender": SERVED, "hit_at_10": 0.2}
    >>> gap = {"hit_at_10_less_served": 0.02, "hit_at_10_low": 0.01, "hit_at_10_high": 0.03}
    >>> verdict([{"recommender": "stan", "hit_at_10": 0.22, **gap}, ours])[:37]
    'Use stan: its hit@10 is 0.220, by +0.'
    """
    ours = next(row for row in rows if row["recommender"] == SERVED)
    others = [row for row in rows if not _is_served(row)]
    if not others:
        return f"Use {SERVED}, the served default: nothing else was compared."
    best = max(others, key=lambda row: float(row["hit_at_10"]))
    better = [row for row in others if float(row["hit_at_10_low"]) > 0]
    if better:
        best = max(better, key=lambda row: float(row["hit_at_10"]))
        return (
            f"Use {best['recommender']}: its hit@10 is {best['hit_at_10']:.3f}, by "
            f"{_gap_text(best)} better than that of {SERVED}, the served default "
            f"({ours['hit_at_10']:.3f})."
        )
    equal = float(best["hit_at_10_high"]) >= 0
    sign = "cannot be told apart from it" if equal else "is clearly worse"
    return (
        f"Use {SERVED}, the served default, with hit@10 {ours['hit_at_10']:.3f}: the best other "
        f"recommender, {best['recommender']}, {sign} ({_gap_text(best)})."
    )


def _is_served(row: Row) -> bool:
    """Whether a row is the served default, whole or with something switched off."""
    return str(row["recommender"]).partition("@")[0] == SERVED


def _gap_text(row: Row) -> str:
    low, high = row["hit_at_10_low"], row["hit_at_10_high"]
    return f"{row['hit_at_10_less_served']:+.3f} [{low:+.3f}, {high:+.3f}]"


HEADER = (
    *("recommender", "hit@1", "hit@5", "hit@10", "MRR@10", "less served, hit@10"),
    *("coverage", "train s", "serve ms", "serve MB"),
)
ABOUT = (
    "The fifth number is the paired difference of hit@10 to the served default, with a 95% "
    "interval over people. Coverage: the share of steps whose answer was a candidate. Training "
    "starts from a pool; its encoder is not counted. Times are those of the processor, one thread."
)


def compare_table(rows: Sequence[Mapping[str, Any]]) -> ReportTable:
    """Return the table of the rows of ``compare.csv``."""
    return ReportTable(HEADER, [_cells(row) for row in rows])


def comparison_page(run: Path) -> str:
    """Return the comparison of a run as Markdown, from its result files alone."""
    rows = read_compared(run)
    blocks: list[Block] = [
        Heading("Which recommender to use", 1),
        Paragraph(verdict(rows)),
        Paragraph(stream_note(run)),
        compare_table(rows),
        Paragraph(ABOUT),
        Paragraph(tuned_note(read_rows(run / TUNING_FILE))),
    ]
    return markdown([block for block in blocks if block != Paragraph("")])


def tuned_note(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on what was tuned, and on what.

    >>> row = {"variant": "stan@session_days=30", "hit_at_10": "0.1", "steps": "9", "chosen": "1"}
    >>> tuned_note([{**row, "until": "2015-01-01T00:00:00+00:00"}])
    'Tuned on the 9 steps before 2015-01-01: stan@session_days=30.'
    """
    chosen = [row["variant"] for row in rows if row["chosen"] == "1"]
    if not chosen:
        return ""
    steps, until = int(rows[0]["steps"]), str(rows[0]["until"])[:10]
    return f"Tuned on the {steps:,} steps before {until}: {', '.join(chosen)}."


def _cells(row: Mapping[str, Any]) -> list[str]:
    hits = [f"{row[name]:.3f}" for name in ("hit_at_1", "hit_at_5", "hit_at_10", "mrr_at_10")]
    low, high = row["hit_at_10_low"], row["hit_at_10_high"]
    gap = f"{row['hit_at_10_less_served']:+.3f} [{low:+.3f}, {high:+.3f}]"
    return [
        str(row["recommender"]),
        *hits,
        "" if row["recommender"] == SERVED else gap,
        f"{row['coverage']:.3f}",
        f"{row['train_seconds']:.2f}",
        f"{row['serve_ms']:.2f}",
        f"{row['serve_mb']:.1f}",
    ]


PAGE = "compare.md"


def run_comparison(
    pool: ArmPool,
    sessions: Sessions,
    out: str | os.PathLike[str],
    options: CompareOptions | None = None,
    progress: Progress | None = None,
    *,
    processes: int | None = None,
) -> Path:
    """Compare recommenders on a log by the clock, and write the result files into the folder `out`.

    Those of `run_stream`, and ``tuning.csv``, ``costs.csv``, ``compare.csv`` (one row for each
    recommender) and ``compare.md``. An interrupted run resumes where it stopped.
    """
    installed("replay", "pyarrow")
    options = CompareOptions() if options is None else options
    work = begin(pool, sessions, out)
    start = started(pool, work.sessions, options).start
    work.out.mkdir(parents=True, exist_ok=True)
    chosen = tune(work, options, start, runner(processes), progress)
    names = entered(options, chosen)
    window = options.window(names)
    run_stream(pool, work.sessions, out, window, progress, processes=processes)
    pieces = {name: cost_piece(window, name, options.timed) for name in names}
    alone = partial(in_processes, processes=1)  # so that nothing else is timed
    run_missing(work, list(pieces.values()), keep_cost, alone, progress)
    rows = [cost_row(name, work.load(piece)) for name, piece in pieces.items()]
    write_rows(work.out / COSTS, COST_COLUMNS, rows)
    write_rows(work.out / FILE, COLUMNS, compared(work.out))
    recorded_options = {**asdict(options), "models": [str(folder) for folder in options.models]}
    update_run(work, {"compare": {"options": recorded_options}})
    write_atomically(work.out / PAGE, comparison_page(work.out).encode())
    return work.out / PAGE
