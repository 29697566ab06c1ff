"""Protocol `stream`: queries in order of time, as in a live system, and one model that learns.

The recommender is the served one, with the registered policies. It warm-starts on the sessions
dated before the start, and the rest drives it. At each step the current query is the anchor,
queries are recommended, and the session's real next query is the answer. Accepted or typed, it
runs next: the current arm moves by the paper's rule.

At a step, only the data dated before its query is known, and the session so far. Either all arms
may be recommended (``pool="all"``), or only queries asked before (``pool="seen"``).

`run_stream` scores how well each recommender predicts the next query, and writes the files.
"""

import io
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed
from nextquery.memory import KINDS
from nextquery.policies import RandomPolicy
from nextquery.recommender import Recommender
from nextquery.research.neural.serve import MovedAnchor
from nextquery.research.replay import players
from nextquery.research.replay.grid import cost, update_run
from nextquery.research.replay.metrics import SIZES, counted, first_m
from nextquery.research.replay.results import write_atomically, write_rows
from nextquery.research.replay.work import (
    Each,
    Piece,
    Progress,
    Run,
    Work,
    begin,
    label_of,
    run_missing,
    runner,
)
from nextquery.research.rivals.registry import rival_named
from nextquery.research.rivals.rival import NO_CANDIDATES
from nextquery.selection import Candidates
from nextquery.sessions import Ids, Sessions


def follow(
    work: Work,
    options: players.StreamOptions,
    run: Run,
    progress: Progress | None = None,
) -> tuple[players.Stream, dict[str, players.StepResults]]:
    """Return what each recommender did at every scored step.

    Selection does not depend on learning, so it runs first, if a contestant needs it. Only with a
    schedule the recommender selects as it goes.
    """
    entrants = [players.contestant(name) for name in options.policies]
    stream = players.Stream.of(work.sessions, options.span, work.pool.rows_in_all)
    for one in entrants:
        if one.rival:
            rival_named(one.rival, Sessions.of([])).check_start(stream.start)
    selector = options.selector()
    if isinstance(selector, MovedAnchor):
        selector.check_start(stream.start)
    if any(one.uses_selection and (one.rival or not options.kept) for one in entrants):
        select_all(work, options, run, progress)
    pieces = {name: _policy_piece(options, name) for name in options.policies}
    run_missing(work, list(pieces.values()), _follow, run, progress)
    return stream, {name: players.StepResults(**work.load(piece)) for name, piece in pieces.items()}


def select_all(
    work: Work, options: players.StreamOptions, run: Run, progress: Progress | None = None
) -> players.Stream:
    """Select the candidates of every step, for many steps at once; see `selections`."""
    stream = players.Stream.of(work.sessions, options.span, work.pool.rows_in_all)
    batches = [_batch_piece(options, number) for number in stream.steps.batches()]
    run_missing(work, batches, _select, run, progress)
    return stream


def _batch_piece(options: players.StreamOptions, number: int) -> Piece:
    label = label_of(["stream select", number])
    return Piece("stream", label, {**options.selecting, "batch": number})


def _policy_piece(options: players.StreamOptions, name: str) -> Piece:
    grown = () if options.schedule == "none" else (options.schedule,)
    label = label_of(["stream", name, *grown])
    rival = players.contestant(name).rival
    trained = rival_named(rival, Sessions.of([])).identity if rival else ""
    # Another model at the same path is another contestant.
    return Piece("stream", label, {**options.playing, "policy": name, "model": trained})


def _select(work: Work, piece: Piece) -> None:
    selecting = dict(piece.options)
    number = selecting.pop("batch")
    options = players.StreamOptions(policies=(), **selecting)
    recommender = Recommender(work.pool, options.selector(), RandomPolicy(), seed=options.seed)
    steps = players.Stream.of(work.sessions, options.span, work.pool.rows_in_all).steps
    selected = steps.select(recommender, number, seen=options.pool == "seen")
    work.keep(
        piece,
        {
            "arms": np.concatenate([candidates.arms for candidates in selected]),
            "similarities": np.concatenate([candidates.similarities for candidates in selected]),
            "sizes": np.array([len(candidates) for candidates in selected]),
        },
    )


def _follow(work: Work, piece: Piece) -> None:
    """Run one contestant through the stream."""
    playing = dict(piece.options)
    name, _ = playing.pop("policy"), playing.pop("model")
    options = players.StreamOptions(policies=(), **playing)
    stream = players.Stream.of(work.sessions, options.span, work.pool.rows_in_all)
    work.keep(
        piece, played(work, stream, options, players.contestant(name, options.seed))._asdict()
    )


def played(
    work: Work, stream: players.Stream, options: players.StreamOptions, entrant: players.Contestant
) -> players.StepResults:
    """Run one contestant through the stream, whose candidates are selected already."""
    live = selections(work, stream, options, players.ranked_steps(stream, options, entrant).places)
    if entrant.rival:
        live = live if entrant.uses_selection else repeat(NO_CANDIDATES)
        results = players.play_rival(stream, options, entrant, live, pool=work.pool)
    else:
        assert entrant.policy is not None
        before = stream.warm_places(memory=entrant.policy.needs_memory)
        warm = selections(work, stream, options, before)  # neither is read if sets are kept
        results = players.play_recommender(work, stream, options, entrant, warm, live)
    scored = set(stream.scored.tolist())
    return players.StepResults.of(step for step in results if step.place in scored)


def selections(
    work: Work, stream: players.Stream, options: players.StreamOptions, places: Ids
) -> Iterator[Candidates]:
    """Yield the candidates of the steps at these places; the loop adds vectors if needed.

    The preferences are not those of the selection, but keep its order.
    """
    wanted = np.isin(stream.steps.places, places)
    for batch in stream.steps.batches():
        flags = wanted[stream.steps.batch(batch)]
        if not flags.any():
            continue
        arrays = work.load(_batch_piece(options, batch))
        ends = np.cumsum(arrays["sizes"])
        for own, flag in zip(np.split(np.arange(ends[-1]), ends[:-1]), flags, strict=True):
            if flag:
                arms = arrays["arms"][own]
                no_vectors = np.empty((len(arms), 0), np.float32)
                in_order = np.arange(len(arms), 0, -1).astype(np.float64)
                yield Candidates(arms, no_vectors, arrays["similarities"][own], in_order)


COLUMNS = [
    *("protocol", "selection", "policy", "pool", "m", "seed", "step"),
    *("hit_at_m", "mrr", "per_round_regret", "foreseen", "wasted"),
]
_POINTS = 10  # how many points of the stream are recorded


def run_stream(
    pool: ArmPool,
    sessions: Sessions,
    out: str | os.PathLike[str],
    options: players.StreamOptions,
    progress: Progress | None = None,
    *,
    processes: int | None = None,
    each: Each | None = None,
) -> Path:
    """Run the protocol `stream` and write ``stream.csv`` and ``stream_steps.parquet`` into `out`.

    It resumes like `run_grid`, and the files are the same, byte for byte, however it is run.
    """
    installed("replay", "pyarrow")
    began, run = time.perf_counter(), runner(processes, each)
    work = begin(pool, sessions, out)
    stream, results = follow(work, options, run, progress)
    rows = (row for name, own in results.items() for row in rows_of(name, own, options))
    write_rows(work.out / "stream.csv", COLUMNS, rows)
    answers = players.answers_by_kind(stream.past, stream.scored_steps)
    _write_steps(work.out / "stream_steps.parquet", stream, results, answers)
    summary = {"options": asdict(options), **summary_of(stream, answers, results)}
    update_run(work, {"stream": {**summary, **cost(began, processes, each)}})
    return work.out


def summary_of(
    stream: players.Stream, answers: Ids, results: dict[str, players.StepResults]
) -> dict[str, Any]:
    """Return what the stream counted: the steps, what can be answered, and hits by kind."""
    shares = np.bincount(answers, minlength=len(players.ANSWERS)) / max(len(answers), 1)
    return {
        "steps": len(answers),
        "people": len(np.unique(stream.people_of(stream.scored_steps))),
        "personal": bool((stream.past.sessions.people >= 0).any()),
        "start": datetime.fromtimestamp(stream.start, UTC).isoformat(),
        "answers": dict(zip(players.ANSWERS, shares.round(6).tolist(), strict=True)),
        "recommenders": {
            name: {
                "coverage": float(own.covered.mean()),
                "offered": float(own.offered.mean()),
                "hits_at_10": {
                    kind: int(((own.kinds == at) & (own.ranks > 0) & (own.ranks <= 10)).sum())
                    for at, kind in enumerate(KINDS)
                },
            }
            for name, own in results.items()
        },
    }


def rows_of(
    name: str, own: players.StepResults, options: players.StreamOptions
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one recommender: averages over the steps so far, for every m.

    `foreseen` and `wasted` are those of `nextquery.research.replay.metrics`: who offers fewer than
    m queries wastes less. `per_round_regret` counts only the first.
    """
    ranks, hit = own.ranks, own.ranks > 0
    reciprocal = np.where(hit, 1.0 / np.maximum(ranks, 1), 0.0)
    for step in sorted({round(len(ranks) * at / _POINTS) for at in range(1, _POINTS + 1)} - {0}):
        for m in SIZES:
            shares = counted(*first_m(ranks[:step], own.offered[:step], m))
            yield {
                "protocol": "stream",
                "selection": options.selection
                if players.contestant(name).uses_selection
                else "none",
                "policy": name,
                "pool": options.pool,
                "m": m,
                "seed": options.seed,
                "step": step,
                "hit_at_m": shares.foreseen,
                "mrr": float(reciprocal[:step].mean()),
                "per_round_regret": 1.0 - float(np.mean(ranks[:step] == 1)),
                "foreseen": shares.foreseen,
                "wasted": shares.wasted,
            }


def _write_steps(
    path: Path, stream: players.Stream, results: dict[str, players.StepResults], answers: Ids
) -> None:
    """Write what happened at every step, for paired comparisons; see `StepResults`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count, places, own = len(answers), stream.scored_steps, list(results.values())
    columns = {
        "policy": pa.array(np.repeat(list(results), count)),
        "step": np.tile(np.arange(1, count + 1), len(own)),
        "session": np.tile(stream.session_of(places), len(own)),
        "rank": np.concatenate([one.ranks for one in own]),
        "person": np.tile(stream.people_of(places), len(own)),
        "answer": pa.array(np.tile(np.array(players.ANSWERS)[answers], len(own))),
        "candidate": np.concatenate([one.covered for one in own]),
        "kind": pa.array(np.array([*KINDS, ""])[np.concatenate([one.kinds for one in own])]),
        "offered": np.concatenate([one.offered for one in own]),
        "forecast_rank": np.concatenate([one.forecast_ranks for one in own]),
        "probabilities": pa.ListArray.from_arrays(
            np.append(0, np.cumsum(np.concatenate([one.forecast_sizes for one in own]))),
            np.concatenate([one.probabilities for one in own]),
        ),
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())
