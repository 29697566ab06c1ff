"""What `GET /v1/experiment` says: the policies, their differences, the watch and the roll-backs."""

import math
from collections.abc import Iterator
from typing import TypedDict

from nextquery.service.model.experiments import Comparison, Interleaving
from nextquery.service.model.state import State
from nextquery.service.settings import CONTROL


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
            _of_policy(policy, share, known, state.fallen.get(policy))
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
