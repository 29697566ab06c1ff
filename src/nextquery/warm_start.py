"""Warm start: learn from past sessions before serving users.

The newest sessions are replayed in order of time. At every step the loop builds the candidates
that it would have had at that moment. It learns by the rule of `nextquery.learning`: the next
query is known, so all candidates were answered.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nextquery import forecast
from nextquery.arms.pool import NO_IDS, ArmPool
from nextquery.forecast import Fitted
from nextquery.loop import HISTORY, Loop, SessionState
from nextquery.memory import FEATURES, Moment, SessionMemory, only_seen
from nextquery.policies.packed import Context
from nextquery.policies.policy import Policy
from nextquery.selection.selector import Candidates, refuse_partial
from nextquery.sessions import Ids

STEPS_PER_SCAN = 256
_WIDE_BATCH = 8  # the same for thresholds, which may select half the pool with its vectors

Selections = Iterator[Candidates]


class Steps(NamedTuple):
    """Queries of past sessions that have a next query, in order of time.

    `places` are their places in the row of sessions, `known` the position by the clock up to which
    everything is known at each.
    """

    past: SessionMemory
    places: Ids
    known: Ids
    first_seen: Ids  # by arm: its first position by the clock

    @classmethod
    def of(cls, past: SessionMemory, places: Ids, arms: int) -> "Steps":
        """Return the steps at these places, put in order of time."""
        known = past.known_at(places)
        order = np.lexsort((places, past.positions[places], known))
        first_seen = np.full(arms, len(past))
        np.minimum.at(first_seen, past.sessions.arms, past.positions)
        return cls(past, places[order], known[order], first_seen)

    @classmethod
    def newest(cls, past: SessionMemory, sessions: int, arms: int, *, memory: bool) -> "Steps":
        """Return the steps of the newest sessions with a next query.

        With a memory, the first fifth of all steps only fills it.
        """
        rows, offsets = past.sessions, past.sessions.offsets
        longer = np.flatnonzero(rows.lengths > 1)
        all_places = places_with_next(past, longer)
        filling = len(all_places) // 5 if memory else 0
        places = all_places[filling:]
        begin = offsets[longer[max(0, len(longer) - sessions)]] if len(longer) and sessions else 0
        return cls.of(past, places[places >= begin] if sessions else places[:0], arms)

    def take(self, which: slice) -> "Steps":
        """Return some of the steps."""
        return self._replace(places=self.places[which], known=self.known[which])

    def batches(self) -> range:
        """Return the batch numbers for `select`."""
        return range(-(-len(self.places) // STEPS_PER_SCAN))

    def batch(self, number: int) -> slice:
        """Return which steps belong to a batch."""
        return slice(number * STEPS_PER_SCAN, (number + 1) * STEPS_PER_SCAN)

    def select(self, loop: Loop, batch: int, *, seen: bool) -> list[Candidates]:
        """Select arms for one batch of steps, in one scan if the selection has a size.

        With `seen`, only arms that were asked before each step: the pool as it was then.
        """
        places = self.places[self.batch(batch)].tolist()
        now = [loop.catalogue.place_of(int(self.past.sessions.arms[place])) for place in places]
        states = [self.session_state(place, ()) for place in places]
        pool, unknown = self.arms_at(loop.pool, batch, seen=seen)
        selected = list[Candidates]()
        step = STEPS_PER_SCAN if loop.selector.k is not None else _WIDE_BATCH
        for start in range(0, len(places), step):
            part = slice(start, start + step)
            more = loop.select(
                now[part],
                states[part],
                pool=pool,
                unknown=unknown[part],
                normalise=loop.policy.needs_preferences,
                vectors=step != _WIDE_BATCH,
            )
            selected += more
        # Models are never updated from partial results.
        refuse_partial(max((candidates.missing for candidates in selected), default=0))
        return selected

    def selections(self, loop: Loop, *, seen: bool) -> "Selections":
        """Yield the candidates of every step; one scan for many, unless sets are kept."""
        if loop.reselects:
            for batch in self.batches():
                yield from self.select(loop, batch, seen=seen)
            return
        one_by_one, kept = OneByOne(loop, self, seen=seen), dict[str, tuple[int, ...]]()
        for at, place in enumerate(self.places.tolist()):
            state = self.session_state(place, ())
            selected = one_by_one(at, state._replace(kept=kept.get(state.session, ())))
            kept[state.session] = tuple(selected.arms.tolist())
            yield selected

    def arms_at(self, pool: ArmPool, batch: int, *, seen: bool) -> tuple[ArmPool, Sequence[Ids]]:
        """Return the arms known to a batch of steps, and those unknown to each of them."""
        known = self.known[self.batch(batch)].tolist()
        if not seen or not known:
            return pool, [NO_IDS] * len(known)
        return only_seen(pool, self.first_seen, known)

    def session_state(self, place: int, names: "PersonNames") -> SessionState:
        """Return the session of the query at a place, just before it."""
        sessions = self.past.sessions
        session = int(np.searchsorted(sessions.offsets, place, side="right")) - 1
        begin = int(sessions.offsets[session])
        history = tuple(sessions.arms[max(begin, place - HISTORY) : place].tolist())
        person = int(sessions.people[session]) if len(sessions.people) else -1
        name = names[person] if 0 <= person < len(names) else None
        previous = history[-1] if history else None
        return SessionState(history, (), place - begin, name, previous, str(session))

    def moment(self, at: int) -> Moment:
        """Return when a step happens, by its number."""
        asked = self.past.sessions.asked
        time = float(asked[self.places[at]]) if self.past.timed else 0.0
        return Moment(time, int(self.known[at]))


class OneByOne:
    """Selects for one step at a time, because a session keeps its candidate set.

    Parameters
    ----------
    loop, steps : selects for these steps.
    seen : whether only arms that were asked before a step are known at it.
    """

    def __init__(self, loop: Loop, steps: Steps, *, seen: bool) -> None:
        self.loop, self.steps, self.seen = loop, steps, seen
        self._batch = -1
        self._arms: tuple[ArmPool, Sequence[Ids]] = (loop.pool, ())

    def __call__(self, at: int, state: SessionState) -> Candidates:
        """Select for the step of this number in its session."""
        batch, within = divmod(at, STEPS_PER_SCAN)
        if batch != self._batch:
            arms = self.steps.arms_at(self.loop.pool, batch, seen=self.seen)
            self._batch, self._arms = batch, arms
        pool, unknown = self._arms
        arm = int(self.steps.past.sessions.arms[self.steps.places[at]])
        place, known = self.loop.catalogue.place_of(arm), unknown[within : within + 1]
        normalise = self.loop.policy.needs_preferences
        (selected,) = self.loop.select(
            [place], [state], pool=pool, unknown=known, normalise=normalise
        )
        refuse_partial(selected.missing)
        return selected


PersonNames = tuple[str, ...] | list[str]


def places_with_next(past: SessionMemory, sessions: Ids | None = None) -> Ids:
    """Return the places of all queries that have a next query, of these sessions or all."""
    offsets = past.sessions.offsets
    last = np.zeros(len(past), bool)
    last[offsets[1:][past.sessions.lengths > 0] - 1] = True
    if sessions is None:
        return np.flatnonzero(~last)
    wanted = np.zeros(past.sessions.size, bool)
    wanted[sessions] = True
    return np.flatnonzero(~last & np.repeat(wanted, past.sessions.lengths))


WARM_SESSIONS, WARM_EXAMPLES = 1000, 2000
_SIMILARITY = FEATURES.index("similarity")

StepProgress = Callable[[int, int], None]


class PastStep(NamedTuple):
    """A step of a past session as if it were live, with the query that came next."""

    candidates: Candidates
    context: Context
    following: int
    time: float
    answered: int  # position of the next query by the clock


class WarmStart(NamedTuple):
    """The result of a warm start.

    `floor` is the share of held-out steps whose next query was not a candidate, so no ranking could
    have shown it: the regret of the best possible policy (None if nothing was held out).
    """

    steps: int
    successes: int
    floor: float | None


def walk(loop: Loop, steps: Steps, selections: Selections | None = None) -> Iterator[PastStep]:
    """Yield every step with its candidates. Nothing is learnt here.

    A policy with a memory has counts of how often each arm was asked, so an arm that was never
    asked before would leak the future. Such a policy gets only arms already seen.
    """
    if selections is None:
        selections = steps.selections(loop, seen=loop.policy.needs_memory)
    row, names = steps.past.sessions.arms, list(loop.memory.names)
    for at, place in enumerate(steps.places.tolist()):
        state, moment = steps.session_state(place, names), steps.moment(at)
        query = loop.catalogue.place_of(int(row[place]))
        candidates, context = loop.candidates(query, state, next(selections), at=moment)
        answered = int(steps.past.positions[place + 1])
        yield PastStep(candidates, context, int(row[place + 1]), moment.time, answered)


def warm_start(
    loop: Loop,
    past: SessionMemory,
    *,
    newest: int = WARM_SESSIONS,
    examples: int = WARM_EXAMPLES,
    selections: Selections | None = None,
    seen: bool | None = None,
    progress: StepProgress | None = None,
) -> WarmStart:
    """Train a loop's policy on past sessions, and calibrate its forecasts.

    Parameters
    ----------
    loop : the loop whose policy learns; its memory, if any, must contain the same sessions.
    past : the sessions.
    newest : how many of the newest sessions with a next query to use; the newest fifth of their
        steps is held out for calibration.
    examples : the total weight of what is learnt, in steps. With fewer, live steps outweigh it
        sooner.
    selections : the arms selected for the steps, if already known.
    seen : whether to select only arms asked before each step; by default as the policy needs it.
    progress : called with the number of steps done and the total.
    """
    policy = loop.policy
    steps = Steps.newest(past, newest, loop.pool.rows_in_all, memory=policy.needs_memory)
    total = len(steps.places)
    train, rng = total - total // 5, np.random.default_rng([loop.seed, total])
    count, successes = 0, 0
    known = int(steps.known[train]) if train < total else len(past)  # at the first held-out step
    if selections is None:
        selections = steps.selections(loop, seen=policy.needs_memory if seen is None else seen)
    for step in walk(loop, steps.take(slice(0, train)), selections):
        if step.answered < known:
            successes += _learn(policy, step, rng)
        count += 1
        if progress is not None and count % STEPS_PER_SCAN == 0:
            progress(count, total)
    policy.discount(examples)
    if policy.needs_memory:
        policy.not_below_zero(_SIMILARITY)
    held_out = steps.take(slice(train, total))
    loop.model_state.calibration, floor = calibrated(loop, walk(loop, held_out, selections))
    if progress is not None:
        progress(total, total)
    return WarmStart(count, successes, floor)


def calibrate(loop: Loop, past: SessionMemory, *, newest: int = WARM_SESSIONS) -> WarmStart:
    """Calibrate the forecasts of a loop whose policy learns nothing, on the same held-out steps."""
    steps = Steps.newest(past, newest, loop.pool.rows_in_all, memory=loop.policy.needs_memory)
    total = len(steps.places)
    held_out = steps.take(slice(total - total // 5, total))
    selections = steps.selections(loop, seen=loop.policy.needs_memory)
    loop.model_state.calibration, floor = calibrated(loop, walk(loop, held_out, selections))
    return WarmStart(0, 0, floor)


def _learn(policy: Policy, step: PastStep, rng: np.random.Generator) -> bool:
    """Learn a step: the next query, if it is a candidate, succeeded; all others failed."""
    success = policy.as_choice(step.candidates, step.context, step.following)
    failures = policy.failures(step.candidates, step.context, rng)
    if failures:
        policy.observe(failures, success, at=step.time or None)
    return success is not None


def calibrated(loop: Loop, steps: Iterator[PastStep]) -> tuple[Fitted, float | None]:
    """Fit the map from scores to probabilities on these steps. Returns it with their floor."""
    scores, came = [np.empty(0)], [np.empty(0, bool)]
    for step in steps:
        scores.append(loop.model_state.expected(step.candidates, step.context))
        came.append(step.candidates.arms == step.following)
    missed = [not hits.any() for hits in came[1:]]
    floor = float(np.mean(missed)) if missed else None
    return forecast.fit(np.concatenate(scores), np.concatenate(came)), floor
