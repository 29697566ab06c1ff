"""Protocol `stream`, as in a live system: queries in order of time, one model that keeps learning.

The recommender is the served one, with the registered policies: warm-started on what is dated
before the start, then driven by the rest. At each step the current query is the anchor, queries are
recommended, and the session's real next query is the answer. Accepted or typed, it runs next: the
current arm moves by the paper's rule. What is known at a step is what is dated before its query,
and the session so far. Either all arms may be recommended (``pool="all"``), or only queries asked
before (``pool="seen"``).
"""

from collections.abc import Iterator
from itertools import repeat

import numpy as np

from nextquery.policies import RandomPolicy
from nextquery.recommender import Recommender
from nextquery.replay.stream.clock import Stream
from nextquery.replay.stream.contestants import Contestant, contestant
from nextquery.replay.stream.options import StreamOptions
from nextquery.replay.stream.players import play_recommender, play_rival, ranked_steps
from nextquery.replay.stream.steps import StepResults
from nextquery.replay.work import Piece, Progress, Run, Work, label_of, run_missing
from nextquery.research.neural.serve import MovedAnchor
from nextquery.research.rivals.registry import rival_named
from nextquery.research.rivals.rival import NO_CANDIDATES
from nextquery.selection import Candidates
from nextquery.sessions import Ids, Sessions


def follow(
    work: Work,
    options: StreamOptions,
    run: Run,
    progress: Progress | None = None,
) -> tuple[Stream, dict[str, StepResults]]:
    """Return what each recommender did at every scored step.

    Selection does not depend on learning, so it runs first, if a contestant needs it. Only with a
    schedule the recommender selects as it goes.
    """
    entrants = [contestant(name) for name in options.policies]
    stream = Stream.of(work.sessions, options.span, work.pool.rows_in_all)
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
    return stream, {name: StepResults(**work.load(piece)) for name, piece in pieces.items()}


def select_all(
    work: Work, options: StreamOptions, run: Run, progress: Progress | None = None
) -> Stream:
    """Select the candidates of every step, for many steps at once; see `selections`."""
    stream = Stream.of(work.sessions, options.span, work.pool.rows_in_all)
    batches = [_batch_piece(options, number) for number in stream.steps.batches()]
    run_missing(work, batches, _select, run, progress)
    return stream


def _batch_piece(options: StreamOptions, number: int) -> Piece:
    label = label_of(["stream select", number])
    return Piece("stream", label, {**options.selecting, "batch": number})


def _policy_piece(options: StreamOptions, name: str) -> Piece:
    grown = () if options.schedule == "none" else (options.schedule,)
    label = label_of(["stream", name, *grown])
    rival = contestant(name).rival
    trained = rival_named(rival, Sessions.of([])).identity if rival else ""
    # Another model at the same path is another contestant.
    return Piece("stream", label, {**options.playing, "policy": name, "model": trained})


def _select(work: Work, piece: Piece) -> None:
    selecting = dict(piece.options)
    number = selecting.pop("batch")
    options = StreamOptions(policies=(), **selecting)
    recommender = Recommender(work.pool, options.selector(), RandomPolicy(), seed=options.seed)
    steps = Stream.of(work.sessions, options.span, work.pool.rows_in_all).steps
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
    options = StreamOptions(policies=(), **playing)
    stream = Stream.of(work.sessions, options.span, work.pool.rows_in_all)
    work.keep(piece, played(work, stream, options, contestant(name, options.seed))._asdict())


def played(work: Work, stream: Stream, options: StreamOptions, entrant: Contestant) -> StepResults:
    """Run one contestant through the stream, whose candidates are selected already."""
    live = selections(work, stream, options, ranked_steps(stream, options, entrant).places)
    if entrant.rival:
        live = live if entrant.uses_selection else repeat(NO_CANDIDATES)
        results = play_rival(stream, options, entrant, live, pool=work.pool)
    else:
        assert entrant.policy is not None
        before = stream.warm_places(memory=entrant.policy.needs_memory)
        warm = selections(work, stream, options, before)  # neither is read if sets are kept
        results = play_recommender(work, stream, options, entrant, warm, live)
    scored = set(stream.scored.tolist())
    return StepResults.of(step for step in results if step.place in scored)


def selections(
    work: Work, stream: Stream, options: StreamOptions, places: Ids
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
