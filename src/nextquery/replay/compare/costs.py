"""What each recommender costs: seconds to train, milliseconds and bytes to serve.

Times are those of the processor, in one thread, so that other work on the machine does not count.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nextquery.memory import Moment, SessionMemory
from nextquery.policies import RandomPolicy
from nextquery.recommender import Recommender
from nextquery.replay.stream.clock import Stream
from nextquery.replay.stream.contestants import Contestant, contestant
from nextquery.replay.stream.options import StreamOptions
from nextquery.replay.stream.players import driver_of, ranked_steps
from nextquery.replay.stream.protocol import selections
from nextquery.replay.work import Piece, Work, label_of
from nextquery.research.rivals.registry import rival_named
from nextquery.research.rivals.rival import NO_CANDIDATES, Step
from nextquery.warm_start import OneByOne, Selections, Steps

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
        visit = steps.visit(int(steps.places[at]), people)
        query = loop.catalogue.place_of(int(stream.past.sessions.arms[steps.places[at]]))
        rng = loop.draws(visit.session, visit.trial + 1)
        return loop.rank(
            query, visit, select(at, visit), options.shown, rng, Moment(steps.moment(at).time)
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
        moment, visit = steps.moment(at), steps.visit(place, ())
        step = Step(
            before=moment.before or 0,
            history=row[int(offsets[session]) : place + 1].tolist(),
            selected=select(at, visit) if selects else NO_CANDIDATES,
            time=moment.time,
            session=session,
            returns=options.returns,
        )
        return rival.rank(step, options.shown)

    return serve, rival.trained_seconds
