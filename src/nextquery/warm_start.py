"""Warm start: learn from past sessions before serving users.

The newest sessions are replayed in order of time. At every step the loop builds the candidates it
would have had then, and learns by the rule of `nextquery.outcomes`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nextquery import calibration
from nextquery.calibration import Fitted
from nextquery.loop import Loop, Visit
from nextquery.memory import only_seen
from nextquery.outcomes import Learning, lesson
from nextquery.policies.base import Context, Policy
from nextquery.select.base import Candidates, refuse_partial
from nextquery.sessions import Ids, Sessions

WARM_SESSIONS, WARM_EXAMPLES = 1000, 2000
_BATCH = 256  # steps per scan of the pool
_SHOWN = 5  # size of the slate that a past session is assumed to have seen
# The log shows what came next whatever was shown, so every entry above it fails.
_FULLY = Learning(fails="all", learn_issued=True)

Progress = Callable[[int, int], None]
Selections = Iterator[Candidates]


class PastStep(NamedTuple):
    """A step of a past session as if it were live, with the query that came next."""

    candidates: Candidates
    context: Context
    following: int
    session: int


class WarmStart(NamedTuple):
    """The result of a warm start.

    `floor` is the share of held-out steps whose next query was not a candidate, so no ranking could
    have shown it: the regret of the best possible policy (None if nothing was held out).
    """

    steps: int
    successes: int
    floor: float | None


class Span(NamedTuple):
    """Sessions `first` to `held_out` train the weights, those up to `end` the calibration."""

    first: int
    held_out: int
    end: int

    @classmethod
    def of(cls, sessions: int, *, newest: int, memory: bool) -> "Span":
        """Take the newest sessions; with a memory, the first fifth of all only fills it.

        >>> Span.of(100, newest=1000, memory=True)
        Span(first=20, held_out=84, end=100)
        """
        first = max(sessions // 5 if memory else 0, sessions - newest)
        return cls(first, sessions - (sessions - first) // 5, sessions)


class Steps(NamedTuple):
    """Every query of some sessions that has a next query, by its place in the row."""

    sessions: Sessions
    places: Ids
    owner: Ids
    first_seen: Ids  # by arm: its first place in the row

    @classmethod
    def of(cls, sessions: Sessions, begin: int, end: int, arms: int) -> "Steps":
        """Return the steps of the sessions `begin` to `end`, which are in order of time."""
        owner = np.repeat(np.arange(sessions.size), sessions.lengths)
        last = np.zeros(len(sessions.arms), bool)
        last[sessions.offsets[1:][sessions.lengths > 0] - 1] = True
        places = np.flatnonzero(~last & (owner >= begin) & (owner < end))
        first_seen = np.full(arms, len(sessions.arms))
        np.minimum.at(first_seen, sessions.arms, np.arange(len(sessions.arms)))
        return cls(sessions, places, owner[places], first_seen)

    def batches(self) -> range:
        """Return the batch numbers for `select`."""
        return range(-(-len(self.places) // _BATCH))

    def select(
        self, loop: Loop, batch: int, *, seen: bool, rng: np.random.Generator | None = None
    ) -> list[Candidates]:
        """Select arms for one batch of steps, in one scan.

        With `seen`, only arms that an earlier session asked: the pool as it was then.
        """
        chunk = slice(batch * _BATCH, (batch + 1) * _BATCH)
        now, pool = self.sessions.arms[self.places[chunk]], loop.pool
        hidden = [np.append(loop.catalogue.blocked_arms(), arm).astype(np.int64) for arm in now]
        rows = pool.rows(now)
        if seen:
            before = self.sessions.offsets[self.owner[chunk]].tolist()
            pool, unseen = only_seen(pool, self.first_seen, before)
            hidden = [np.union1d(own, new) for own, new in zip(hidden, unseen, strict=True)]
        selected = loop.selector.select_many(pool, rows, hidden, rng)
        # Models are never updated from partial results.
        refuse_partial(max((candidates.missing for candidates in selected), default=0))
        return selected


def walk(loop: Loop, steps: Steps, selections: Selections | None = None) -> Iterator[PastStep]:
    """Yield every step with its candidates. Nothing is learnt here.

    A policy with a memory has counts of how often each arm was asked, so an arm that was never
    asked before would leak the future. Such a policy gets only arms already seen.
    """
    seen = loop.policy.needs_memory
    if selections is None:
        selections = (
            selected
            for batch in steps.batches()
            for selected in steps.select(loop, batch, seen=seen)
        )
    row, offsets, session, visit = steps.sessions.arms, steps.sessions.offsets, -1, Visit()
    for at, owner in zip(steps.places.tolist(), steps.owner.tolist(), strict=True):
        selected, visit = next(selections), visit if owner == session else Visit()
        session, place = owner, loop.catalogue.place_of(int(row[at]))
        before = int(offsets[owner])
        candidates, context = loop.candidates(place, visit, selected, before=before)
        yield PastStep(candidates, context, int(row[at + 1]), owner)
        visit = visit.after(place.arm, ())


def warm_start(
    loop: Loop,
    sessions: Sessions,
    *,
    newest: int = WARM_SESSIONS,
    examples: int = WARM_EXAMPLES,
    selections: Selections | None = None,
    progress: Progress | None = None,
) -> WarmStart:
    """Train a loop's policy on past sessions, and calibrate its forecasts.

    Parameters
    ----------
    loop : the loop whose policy learns; its memory, if any, must contain the same sessions.
    sessions : the sessions, in order of time.
    newest : how many of the newest sessions to use; a fifth of them is held out for calibration.
    examples : the total weight of what is learnt, in examples of feedback. With fewer, clicks
        outweigh it sooner.
    selections : the arms selected for the steps, if already known.
    progress : called with the number of sessions done and the total.
    """
    policy = loop.policy
    span = Span.of(sessions.size, newest=newest, memory=policy.needs_memory)
    arms = loop.pool.rows_in_all
    count, successes, total = 0, 0, span.end - span.first
    for step in walk(loop, Steps.of(sessions, span.first, span.held_out, arms), selections):
        successes += _learn(policy, step)
        count += 1
        if progress is not None and count % _BATCH == 0:
            progress(step.session - span.first, total)
    policy.discount(examples)
    held_out = Steps.of(sessions, span.held_out, span.end, arms)
    loop.learnt.calibration, floor = calibrated(loop, walk(loop, held_out, selections))
    if progress is not None:
        progress(total, total)
    return WarmStart(count, successes, floor)


def _learn(policy: Policy, step: PastStep) -> bool:
    """Learn a step: entries above the next query failed; that query, if a candidate, succeeded."""
    slate = policy.rank(step.candidates, step.context, _SHOWN)
    arms = [choice.arm for choice in slate]
    taught = lesson(arms, typed=step.following, learning=_FULLY)
    for choice, reward in zip(slate, taught.rewards, strict=False):
        policy.update(choice, float(reward or 0))
    if not taught.typed:
        return True
    success = policy.as_choice(step.candidates, step.context, step.following)
    if success is not None:
        policy.update(success, 1.0)
    return success is not None


def calibrated(loop: Loop, steps: Iterator[PastStep]) -> tuple[Fitted, float | None]:
    """Fit the map from scores to probabilities on these steps. Returns it with their floor."""
    scores, came = [np.empty(0)], [np.empty(0, bool)]
    for step in steps:
        scores.append(loop.expected(step.candidates, step.context))
        came.append(step.candidates.arms == step.following)
    missed = [not hits.any() for hits in came[1:]]
    floor = float(np.mean(missed)) if missed else None
    return calibration.fit(np.concatenate(scores), np.concatenate(came)), floor
