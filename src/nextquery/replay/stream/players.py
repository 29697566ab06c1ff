"""How a contestant goes through a stream: a rival ranks, the recommender also learns."""

from collections.abc import Iterator, Sequence

import numpy as np

from nextquery.arms import ArmPool
from nextquery.learning import Learning
from nextquery.loop import Visit
from nextquery.memory import KINDS, Memory, kind_of
from nextquery.recommender import Recommender
from nextquery.replay.stream.clock import Stream
from nextquery.replay.stream.contestants import Contestant
from nextquery.replay.stream.drive import Driver
from nextquery.replay.stream.options import LONGEST, StreamOptions
from nextquery.replay.stream.steps import StepResult
from nextquery.replay.work import Work
from nextquery.research.rivals.registry import rival_named
from nextquery.research.rivals.rival import Step
from nextquery.selection import Candidates
from nextquery.warm_start import OneByOne, Steps, warm_start

Selections = Iterator[Candidates]


def ranked_steps(stream: Stream, options: StreamOptions, entrant: Contestant) -> Steps:
    """Return the steps at which a contestant must rank: those whose slates matter.

    All, if it learns from them, does not show a query again or keeps the candidates of a session;
    otherwise only the scored ones.
    """
    steps = stream.live_steps
    goes_on = not options.repeat or options.kept
    if goes_on or (entrant.weights and entrant.learns):
        return steps
    wanted = np.isin(steps.places, stream.scored)
    return steps._replace(places=steps.places[wanted], known=steps.known[wanted])


def play_rival(
    stream: Stream,
    options: StreamOptions,
    entrant: Contestant,
    selections: Selections,
    *,
    pool: ArmPool | None = None,
) -> Iterator[StepResult]:
    """Yield what a rival did at `ranked_steps`; `selections` are their candidates.

    `pool` is for rivals that need one.
    """
    assert entrant.rival is not None
    rival, past = rival_named(entrant.rival, stream.past, pool=pool), stream.past
    row, offsets = past.sessions.arms, past.sessions.offsets
    visits: dict[int, Visit] = {}
    accepted: dict[int, list[int]] = {}
    steps = ranked_steps(stream, options, entrant)
    for at, place in enumerate(steps.places.tolist()):
        session = int(np.searchsorted(offsets, place, side="right")) - 1
        begin, visit = int(offsets[session]), visits.get(session, Visit())
        moment, history = steps.moment(at), row[begin : place + 1].tolist()
        seen = [] if options.repeat else [arm for arm in visit.seen if arm not in history]
        step = Step(
            before=moment.before or 0,
            time=moment.time,
            history=history,
            selected=next(selections),
            hidden=seen,
            returns=options.returns,
            session=session,
            unseen=options.pool == "all",
            accepted=accepted.get(session, ()),
        )
        arms, shares, candidates = rival.ranking(step, LONGEST)
        ranking, answer = arms.tolist(), int(row[place + 1])
        rank, covered = _rank_of(answer, ranking), bool((candidates == answer).any())
        yield StepResult(place, rank, covered, -1, len(ranking), rank, shares.tolist())
        visits[session] = visit.after(history[-1], ranking[: options.shown])
        if answer in ranking[: options.shown]:
            accepted.setdefault(session, []).append(answer)


def play_recommender(
    work: Work,
    stream: Stream,
    options: StreamOptions,
    entrant: Contestant,
    warm: Selections,
    live: Selections,
) -> Iterator[StepResult]:
    """Yield what the recommender did at `ranked_steps`; it learns as it goes.

    `warm` and `live` are the candidates of `Stream.warm_places` and of those steps, unless they
    depend on the session (`StreamOptions.kept`).
    """
    driver = driver_of(work, stream, options, entrant, warm)
    row = stream.past.sessions.arms
    for place, slate, likely in driver.play(stream.live, live):
        answer, arms = int(row[place + 1]), [choice.arm for choice in slate.choices]
        found = np.flatnonzero(slate.candidates.arms == answer)
        kind = -1
        if len(found):
            features = slate.candidates.features
            known = "similar" if features is None else kind_of(features[found[0]])
            kind = KINDS.index(known)
        forecast = [arm for arm, _ in likely]
        yield StepResult(
            place,
            _rank_of(answer, arms),
            bool(len(found)),
            kind,
            len(arms),
            _rank_of(answer, forecast),
            [probability for _, probability in likely],
        )


def driver_of(
    work: Work,
    stream: Stream,
    options: StreamOptions,
    entrant: Contestant,
    warm: Selections | None,
) -> Driver:
    """Return the recommender, warm-started on the stream's steps before the start.

    `warm` are the candidates of `Stream.warm_places`, unless they are kept; None: it selects them.
    """
    assert entrant.policy is not None
    people = work.people if entrant.personal else ()
    memory = None
    if entrant.policy.needs_memory:
        memory = Memory(stream.known, names=people, half_life=entrant.half_life)
    rec = Recommender(
        work.pool,
        options.selector(),
        entrant.policy,
        exploration=options.exploration if entrant.learns else 0.0,
        seed=options.seed,
        memory=memory,
        repeat=options.repeat,
        returns=options.returns,
        recommend_at_least=entrant.at_least,
        schedule=options.growth(),
    )
    past, seen = stream.known_past if memory is None else memory.past, options.pool == "seen"
    known = None if options.kept else warm
    warm_start(rec, past, newest=options.warm, selections=known, seen=seen)
    rec.looks_further &= not seen  # the whole pool has arms that are asked later
    steps = ranked_steps(stream, options, entrant)
    one_by_one = OneByOne(rec, steps, seen=seen)
    number = {place: at for at, place in enumerate(steps.places.tolist())}

    def select(place: int, visit: Visit) -> Candidates:
        return one_by_one(number[place], visit)

    return Driver(
        rec,
        stream.past,
        Learning(),
        shown=options.shown,
        ranked=LONGEST,
        weights=entrant.weights,
        memory=entrant.memory,
        people=people,
        only=steps.places,
        select=select if options.kept else None,
    )


def _rank_of(answer: int, ranking: Sequence[int]) -> int:
    """Return the rank of the answer, from 1; 0 if it is not in the ranking."""
    return list(ranking).index(answer) + 1 if answer in ranking else 0
