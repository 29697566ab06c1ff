"""Experiments of the engine: which policy answers a session, its results, and the fallback.

The report contains the policies, their differences, the watch and the roll-backs. When the watch
of a served policy raises its alarm, the service falls back to the most similar queries.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol, TypedDict

import numpy as np

from nextquery.experiments.assignment import policy_of
from nextquery.loop import Loop
from nextquery.policies import MostSimilar
from nextquery.service.log.events import By, PolicyFallback
from nextquery.service.log.teaching import StartFallback
from nextquery.service.log.writer import Writer
from nextquery.service.model.experiments import Comparison, Interleaving
from nextquery.service.model.learner import Learner
from nextquery.service.model.state import State
from nextquery.service.settings import CONTROL
from nextquery.signing import keyed


class OfSession(Protocol):
    """A request in a session."""

    session_id: str
    owner: str


class Turn(NamedTuple):
    """The policy of a session, and the one that answers: after a fallback, the control."""

    assigned: str
    answers: str

    @property
    def uses_fallback(self) -> bool:
        """Whether another policy answers."""
        return self.assigned != self.answers


class Assignment:
    """Divides the sessions between the policies in force: the same way in every worker.

    Read it while the learner's lock is held.
    """

    def __init__(self, loop: Loop, learner: Learner, secret: str) -> None:
        self.loop, self.learner, self._secret = loop, learner, secret

    def turn(self, request: OfSession) -> Turn:
        """Return who answers a request."""
        state = self.learner.state
        shares = state.shares
        assigned = next(iter(shares))
        if len(shares) > 1:
            session = f"{request.owner}\0{request.session_id}"
            assigned = policy_of(session, shares, secret=self._secret)
        return Turn(assigned, CONTROL if assigned in state.fallbacks else assigned)

    def loop_of(self, policy: str) -> Loop:
        """Return the loop that ranks by a policy; the control never explores."""
        state = self.learner.state
        model_state = state.model_state_of(policy)
        if policy == CONTROL:
            if model_state is state.model_state and CONTROL not in state.shares:  # it has no share
                model_state = replace(model_state, policy=MostSimilar(top=1), calibration={})
            if model_state is not state.model_state:
                return self.loop.with_model(model_state, exploration=0)
            return self.loop
        return self.loop if model_state is state.model_state else self.loop.with_model(model_state)

    def partner(self, turn: Turn) -> str:
        """Return the policy that shares the slates of the one that answers; empty if none does."""
        both = self.learner.state.interleaving
        return "" if both is None or turn.answers != both.policies[0] else both.policies[1]

    def coins(self, request: OfSession, trial: int) -> np.random.Generator:
        """Return the coins of a draft, which nobody outside can know."""
        session = f"{request.owner}\0{request.session_id}\0{trial}"
        return np.random.default_rng(int(keyed(self._secret, "interleave", session), 16))

    @property
    def needs_preferences(self) -> bool:
        """Whether a policy ranks by the paper's preferences; the control ranks by similarity."""
        others = (
            branch.policy.needs_preferences
            for name, branch in self.learner.state.other_branches.items()
            if name != CONTROL
        )
        return self.loop.policy.needs_preferences or any(others)


class OfPolicy(TypedDict):
    """A policy and its sessions, each counted by its first slate."""

    policy: str
    share: float
    sessions: int
    hits: int
    hits_per_session: float | None
    fell_back: int | None


class OfDifference(TypedDict):
    """Hits per session of `policy` less those of `other`; the interval holds at any time."""

    policy: str
    other: str
    sessions: int
    difference: float | None
    low: float | None
    high: float | None
    p_value: float


class OfWatch(TypedDict):
    """How sure it is that a policy is worse than the control; an alarm is at `alpha`."""

    policy: str
    control: str
    sessions: int
    difference: float
    p_value: float
    alpha: float


class OfRollBack(TypedDict):
    """A roll-back in force: the position of its event, and that of the model."""

    position: int
    to: int


class OfInterleaving(TypedDict):
    """Accepted entries of two policies that share the slates, and the mean credit of a click.

    The credit is 1 for the first policy and −1 for the second; the interval holds at any time.
    """

    policies: list[str]
    clicks: list[int]
    credit: float | None
    low: float | None
    high: float | None


class Experiment(TypedDict):
    """The answer of `/v1/experiment`; `computing`: the model is being computed again."""

    position: int
    policies: list[OfPolicy]
    differences: list[OfDifference]
    watch: list[OfWatch]
    interleaving: OfInterleaving | None
    rolled_back: list[OfRollBack]
    computing: bool


def report(state: State) -> Experiment:
    """Return what is known at the position of a state."""
    known = state.comparison
    return {
        "position": state.position,
        "policies": [
            _of_policy(policy, share, known, state.fallbacks.get(policy))
            for policy, share in state.shares.items()
        ],
        "differences": [] if known is None else list(_differences(known)),
        "watch": [] if known is None else list(_watches(known)),
        "interleaving": None if state.interleaving is None else _of_two(state.interleaving),
        "rolled_back": [
            {"position": position, "to": to} for position, to in state.roll_backs.in_force
        ],
        "computing": state.stale,
    }


def _of_policy(
    policy: str, share: float, known: Comparison | None, fell_back: int | None
) -> OfPolicy:
    sessions = 0 if known is None else known.sessions.get(policy, 0)
    hits = 0 if known is None else known.hits.get(policy, 0)
    return {
        "policy": policy,
        "share": share,
        "sessions": sessions,
        "hits": hits,
        "hits_per_session": hits / sessions if sessions else None,
        "fell_back": fell_back,
    }


def _differences(known: Comparison) -> Iterator[OfDifference]:
    main = next(iter(known.shares))
    for other, seen in known.differences.items():
        mean, low, high = seen.interval()
        yield {
            "policy": main,
            "other": other,
            "sessions": seen.count,
            "difference": mean if seen.count else None,
            "low": max(-1.0, low) if seen.count else None,
            "high": min(1.0, high) if seen.count else None,
            "p_value": seen.p_value(),
        }


def _of_two(known: Interleaving) -> OfInterleaving:
    clicks = known.credits.clicks
    mean, low, high = known.credits.interval()
    seen = sum(clicks) > 0
    return {
        "policies": list(known.policies),
        "clicks": list(clicks),
        "credit": mean if seen else None,
        "low": max(-1.0, low) if seen else None,
        "high": min(1.0, high) if seen else None,
    }


def _watches(known: Comparison) -> Iterator[OfWatch]:
    for policy, watch in known.watches.items():
        worse = watch.alpha * math.exp(min(700.0, -float(watch.evidence)))
        yield {
            "policy": policy,
            "control": CONTROL,
            "sessions": watch.sessions,
            "difference": watch.difference,
            "p_value": min(1.0, worse),
            "alpha": watch.alpha,
        }


_log = logging.getLogger("nextquery.service")


def fall_back(learner: Learner, writer: Writer) -> None:
    """Record a fallback for every policy that was found worse than the control.

    Each worker finds the same at the same position of the log, and one of them records it.
    """
    with learner.lock:
        state = learner.state
        found = [(policy, state.position, state.watched(policy)) for policy in state.alarms]
    for policy, position, (sessions, difference) in found:
        body = PolicyFallback(
            policy=policy, sessions=sessions, difference=difference, by=By("service", "watch")
        )
        written = writer.submit(StartFallback(body, position)).result()
        if written is not None:
            _log.error(
                "fell back: %s was found worse than %s (%+.3f hits per session, %d sessions); its "
                "sessions get the most similar queries from position %d on, until nextquery "
                "end-fallback",
                policy,
                CONTROL,
                difference,
                sessions,
                written,
            )
