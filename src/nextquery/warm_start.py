"""Warm start: learn from past sessions before serving users.

The newest sessions are replayed by the clock. At every step the loop builds the candidates it would
have had then, and learns by the rule of `nextquery.outcomes`: the query that came next is known, so
all candidates were answered.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nextquery import calibration
from nextquery.calibration import Fitted
from nextquery.loop import Loop
from nextquery.memory import FEATURES, SessionMemory
from nextquery.past_steps import STEPS_PER_SCAN, Selections, Steps
from nextquery.policies.packed import Context
from nextquery.policies.policy import Policy
from nextquery.selection.selector import Candidates

WARM_SESSIONS, WARM_EXAMPLES = 1000, 2000
_SIMILARITY = FEATURES.index("similarity")

Progress = Callable[[int, int], None]


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
        visit, moment = steps.visit(place, names), steps.moment(at)
        query = loop.catalogue.place_of(int(row[place]))
        candidates, context = loop.candidates(query, visit, next(selections), at=moment)
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
    progress: Progress | None = None,
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
    loop.learnt.calibration, floor = calibrated(loop, walk(loop, held_out, selections))
    if progress is not None:
        progress(total, total)
    return WarmStart(count, successes, floor)


def calibrate(loop: Loop, past: SessionMemory, *, newest: int = WARM_SESSIONS) -> WarmStart:
    """Calibrate the forecasts of a loop whose policy learns nothing, on the same held-out steps."""
    steps = Steps.newest(past, newest, loop.pool.rows_in_all, memory=loop.policy.needs_memory)
    total = len(steps.places)
    held_out = steps.take(slice(total - total // 5, total))
    selections = steps.selections(loop, seen=loop.policy.needs_memory)
    loop.learnt.calibration, floor = calibrated(loop, walk(loop, held_out, selections))
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
        scores.append(loop.learnt.expected(step.candidates, step.context))
        came.append(step.candidates.arms == step.following)
    missed = [not hits.any() for hits in came[1:]]
    floor = float(np.mean(missed)) if missed else None
    return calibration.fit(np.concatenate(scores), np.concatenate(came)), floor
