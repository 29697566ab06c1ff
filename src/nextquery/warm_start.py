"""What is learnt from past sessions before the first user comes.

The newest sessions are walked through in order of time, as if they were lived: at every step the
loop makes the candidates it would have made then, and learns by the rule of `nextquery.outcomes`.
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
_BATCH = 256  # steps selected for at once
_SHOWN = 5  # entries of the slate that a past session is imagined to have seen
_FULLY = Learning(fails="all", learn_issued=True)  # the log says what came next, whatever was shown

Progress = Callable[[int, int], None]
Selections = Iterator[Candidates]


class PastStep(NamedTuple):
    """A step of a past session, as a live one would look, and what really came next."""

    candidates: Candidates
    context: Context
    following: int
    session: int


class WarmStart(NamedTuple):
    """What the past taught.

    `floor` is the share of held-out steps whose next query was no candidate, so that no ranking
    could have shown it: the regret that is left to the best of policies (None: nothing held out).
    """

    steps: int
    successes: int
    floor: float | None


class Span(NamedTuple):
    """Sessions `first` to `held_out` are for the weights, those up to `end` for calibration."""

    first: int
    held_out: int
    end: int

    @classmethod
    def of(cls, sessions: int, *, newest: int, memory: bool) -> "Span":
        """The newest sessions; with a memory the first fifth of all is left to fill it.

        >>> Span.of(100, newest=1000, memory=True)
        Span(first=20, held_out=84, end=100)
        """
        first = max(sessions // 5 if memory else 0, sessions - newest)
        return cls(first, sessions - (sessions - first) // 5, sessions)


class Steps(NamedTuple):
    """Every query of some sessions that another one follows, by its place in the row."""

    sessions: Sessions
    places: Ids
    owner: Ids
    first_seen: Ids  # by arm: its first place in the row

    @classmethod
    def of(cls, sessions: Sessions, begin: int, end: int, arms: int) -> "Steps":
        """The steps of the sessions from `begin` to `end`, which are in order of time."""
        owner = np.repeat(np.arange(sessions.size), sessions.lengths)
        last = np.zeros(len(sessions.arms), bool)
        last[sessions.offsets[1:][sessions.lengths > 0] - 1] = True
        places = np.flatnonzero(~last & (owner >= begin) & (owner < end))
        first_seen = np.full(arms, len(sessions.arms))
        np.minimum.at(first_seen, sessions.arms, np.arange(len(sessions.arms)))
        return cls(sessions, places, owner[places], first_seen)

    def batches(self) -> range:
        """The numbers of the batches that `select` takes."""
        return range(-(-len(self.places) // _BATCH))

    def select(
        self, loop: Loop, batch: int, *, seen: bool, rng: np.random.Generator | None = None
    ) -> list[Candidates]:
        """The selected arms of one batch of steps, in one scan.

        With `seen`, only those that an earlier session asked: the pool as it was then.
        """
        mine = slice(batch * _BATCH, (batch + 1) * _BATCH)
        now, pool = self.sessions.arms[self.places[mine]], loop.pool
        hidden = [np.append(loop.catalogue.blocked_arms(), arm).astype(np.int64) for arm in now]
        rows = pool.rows(now)
        if seen:
            before = self.sessions.offsets[self.owner[mine]].tolist()
            pool, unseen = only_seen(pool, self.first_seen, before)
            hidden = [np.union1d(own, new) for own, new in zip(hidden, unseen, strict=True)]
        many = loop.selector.select_many(pool, rows, hidden, rng)
        refuse_partial(max((one.missing for one in many), default=0))  # what is learnt is kept
        return many


def walk(loop: Loop, steps: Steps, selections: Selections | None = None) -> Iterator[PastStep]:
    """Every step with its candidates; nothing is learnt here.

    A policy with a memory sees how often an arm was asked, so that an arm which nobody had asked
    yet would give the future away: it gets only those that were seen.
    """
    seen = loop.policy.needs_memory
    if selections is None:
        selections = (one for at in steps.batches() for one in steps.select(loop, at, seen=seen))
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
    """Teach a loop's policy what past sessions say, and calibrate its forecasts.

    Parameters
    ----------
    loop : its policy learns; its memory, where it has one, holds the same sessions.
    sessions : in order of time.
    newest : weights are learnt from so many of them; a fifth of these is kept for calibration.
    examples : how many examples of feedback all of this may weigh: the fewer, the sooner clicks
        outweigh it.
    selections : what was selected for the steps, if that is known already.
    progress : called with the sessions done and all.
    """
    policy = loop.policy
    span = Span.of(sessions.size, newest=newest, memory=policy.needs_memory)
    arms = loop.pool.rows_in_all
    count, successes, all_of_them = 0, 0, span.end - span.first
    for step in walk(loop, Steps.of(sessions, span.first, span.held_out, arms), selections):
        successes += _learn(policy, step)
        count += 1
        if progress is not None and count % _BATCH == 0:
            progress(step.session - span.first, all_of_them)
    policy.discount(examples)
    held_out = Steps.of(sessions, span.held_out, span.end, arms)
    loop.learnt.calibration, floor = calibrated(loop, walk(loop, held_out, selections))
    if progress is not None:
        progress(all_of_them, all_of_them)
    return WarmStart(count, successes, floor)


def _learn(policy: Policy, step: PastStep) -> bool:
    """What would have stood above the next query failed; that query succeeded, if it could."""
    slate = policy.rank(step.candidates, step.context, _SHOWN)
    arms = [choice.arm for choice in slate]
    taught = lesson(arms, typed=step.following, learning=_FULLY)
    for choice, reward in zip(slate, taught.rewards, strict=False):
        policy.update(choice, float(reward or 0))
    if not taught.typed:
        return True
    real = policy.as_choice(step.candidates, step.context, step.following)
    if real is not None:
        policy.update(real, 1.0)
    return real is not None


def calibrated(loop: Loop, steps: Iterator[PastStep]) -> tuple[Fitted, float | None]:
    """The map from scores to probabilities that these steps support, and their floor."""
    scores, came = [np.empty(0)], [np.empty(0, bool)]
    for step in steps:
        scores.append(loop.expected(step.candidates, step.context))
        came.append(step.candidates.arms == step.following)
    missed = [not one.any() for one in came[1:]]
    floor = float(np.mean(missed)) if missed else None
    return calibration.fit(np.concatenate(scores), np.concatenate(came)), floor
