"""What is learnt from the pool's sessions before the first user comes."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Ids
from nextquery.memory import only_seen
from nextquery.policies import Context, LinTS, LinUCB, MostSimilar, Policy, RandomPolicy
from nextquery.select import Candidates, MaxUtility
from nextquery.select.base import refuse_partial
from nextquery.service import calibration
from nextquery.service.arrays import Arrays, packed, to_text, under
from nextquery.service.candidates import Recollection, plain, with_memory
from nextquery.service.options import MEMORY, EngineOptions
from nextquery.sessions import Sessions

_BATCH = 256  # steps selected for at once
_SHOWN = 5  # entries of the slate that a past session is imagined to have seen

Progress = Callable[[int, int], None]


def new_policy(options: EngineOptions) -> Policy:
    """The policy of the settings, before it has learnt anything."""
    if options.policy == MEMORY:
        return LinUCB(options.alpha, features="arm", seed=options.seed)
    if options.policy == "lin-ucb":
        return LinUCB(options.alpha, seed=options.seed)
    if options.policy == "lin-ts":
        return LinTS(seed=options.seed)
    return MostSimilar(top=1) if options.policy == "most-similar" else RandomPolicy()


def forecast_scores(policy: Policy, candidates: Candidates, context: Context) -> Any:
    """What a forecast goes by: the policy's estimate without any bonus, or the similarity."""
    said = policy.estimates(candidates, context)
    return candidates.similarities if said is None else said[0]


class Learnt(NamedTuple):
    """What the past teaches.

    `floor` is the share of held-out steps whose next query was no candidate, so that no ranking
    could have shown it: the regret that is left to the best of policies (None: nothing held out).
    """

    policy: Policy
    calibration: Arrays
    steps: int
    floor: float | None


class PastStep(NamedTuple):
    """A step of a past session, as a live one would look, and what really came next."""

    candidates: Candidates
    context: Context
    following: int
    session: int


class Past:
    """The pool's newest sessions, to be walked through in order of time without their future.

    Sessions `first` to `held_out` are for the weights, those up to `count` for calibration; the
    newest `reserve` sessions of all come after them and are for nothing but a test.
    """

    def __init__(self, pool: ArmPool, options: EngineOptions, reserve: int = 0) -> None:
        self.pool, self.options = pool, options
        everything = newest_sessions(pool, options.memory_sessions)
        self.sessions = everything
        self.recollection = Recollection(pool, everything)
        self.selector = MaxUtility(k=options.k)
        count = 0 if everything is None else max(0, everything.size - reserve)
        self.first = max(count // 5, count - options.warm_sessions)
        self.held_out = count - (count - self.first) // 5
        self.count = count

    def steps(self, begin: int, end: int) -> Iterator[PastStep]:
        """The steps of the sessions from `begin` to `end`."""
        if self.sessions is None or begin >= end:
            return
        past = self.sessions
        lengths = np.diff(past.offsets)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        last = np.zeros(len(past.arms), bool)
        last[past.offsets[1:][lengths > 0] - 1] = True
        places = np.flatnonzero(~last & (owner >= begin) & (owner < end))
        first_seen = np.full(self.pool.rows_in_all, len(past.arms))
        np.minimum.at(first_seen, past.arms, np.arange(len(past.arms)))
        for start in range(0, len(places), _BATCH):
            mine = places[start : start + _BATCH]
            yield from self._batch(past, mine, owner[mine], first_seen)

    def _batch(
        self, past: Sessions, places: Ids, owner: Ids, first_seen: Ids
    ) -> Iterator[PastStep]:
        before = past.offsets[owner].tolist()
        seen, unseen = only_seen(self.pool, first_seen, before)
        rows = self.pool.rows(past.arms[places])
        hidden = [
            np.union1d(past.arms[begin : place + 1], new)
            for begin, place, new in zip(before, places.tolist(), unseen, strict=True)
        ]
        many = self.selector.select_many(seen, rows, hidden)
        refuse_partial(max((one.missing for one in many), default=0))  # it is kept for good
        for number, (place, begin) in enumerate(zip(places.tolist(), before, strict=True)):
            history = past.arms[begin : place + 1].tolist()
            candidates = self._made(many[number], rows[number], history, begin, first_seen)
            context = Context(rows[number], tuple(history[:-1]), len(history))
            yield PastStep(candidates, context, int(past.arms[place + 1]), int(owner[number]))

    def _made(
        self, selected: Candidates, row: Any, history: list[int], before: int, first_seen: Ids
    ) -> Candidates:
        if self.options.policy != MEMORY:
            return plain(selected, history)
        return with_memory(
            selected,
            self.pool,
            row,
            self.recollection,
            history,
            running=True,
            before=before,
            allowed=(first_seen < before).astype(np.int64),
        )


def newest_sessions(pool: ArmPool, most: int) -> Sessions | None:
    """The newest sessions of the pool's log in order of time; None where there are none."""
    if pool.origin is None or not pool.origin.sessions.size or not most:
        return None
    return pool.origin.sessions.newest(most)


def warm_start(
    pool: ArmPool, options: EngineOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """The body of a model event: a policy that has seen the past, and its calibration."""
    learned = learnt(Past(pool, options), progress)
    policy, fitted = learned.policy, learned.calibration
    arrays = {**under("policy", policy.state()), **under("calibration", fitted)}
    return {
        "policy": options.policy,
        "policy_class": type(policy).__name__,
        "settings": options.of_the_model(),
        "warm_steps": learned.steps,
        "floor": learned.floor,
        "arrays": to_text(packed(arrays)),
    }


def learnt(past: Past, progress: Progress | None = None) -> Learnt:
    """A policy with its calibration, from all that came before the held-out sessions."""
    policy, steps = new_policy(past.options), 0
    for step in past.steps(past.first, past.held_out):
        _learn(policy, step)
        steps += 1
        if progress is not None and steps % _BATCH == 0:
            progress(step.session - past.first, past.count - past.first)
    policy.discount(past.options.warm_examples)
    fitted, floor = calibrated(policy, past.steps(past.held_out, past.count))
    if progress is not None:
        progress(past.count - past.first, past.count - past.first)
    return Learnt(policy, fitted, steps, floor)


def _learn(policy: Policy, step: PastStep) -> None:
    """What came next succeeded, if it was a candidate; what would have stood above it failed."""
    slate = policy.rank(step.candidates, step.context, _SHOWN)
    for choice in slate:
        if choice.arm == step.following:
            break
        policy.update(choice, 0.0)
    real = policy.as_choice(step.candidates, step.context, step.following)
    if real is not None:
        policy.update(real, 1.0)


def calibrated(policy: Policy, steps: Iterator[PastStep]) -> tuple[Arrays, float | None]:
    """The map from scores to probabilities that these steps support, and their floor."""
    scores, came = [np.empty(0)], [np.empty(0, bool)]
    for step in steps:
        scores.append(forecast_scores(policy, step.candidates, step.context))
        came.append(step.candidates.arms == step.following)
    missed = [not one.any() for one in came[1:]]
    floor = float(np.mean(missed)) if missed else None
    return calibration.fit(np.concatenate(scores), np.concatenate(came)), floor
