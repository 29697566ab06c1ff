"""What an outcome teaches a policy, from the events of a decision."""

import base64
from collections.abc import Iterator, Sequence

import numpy as np

from nextquery.learning import Answered, Example, Rewards, examples
from nextquery.policies import Choice, Policy
from nextquery.service.log.events import FeedbackEvent, NextQuery, OutcomeEvent
from nextquery.service.model.past import Decided

Part = tuple[Decided, Answered, Answered]
"""Entries that one policy picked, with what was known of them before and is known now."""


def parts_of(body: OutcomeEvent, decision: Decided) -> list[Part]:
    """Return what an outcome tells each policy that picked entries; nothing after a fallback."""
    if decision.fallback:
        return []
    feedback = body if isinstance(body, FeedbackEvent) else None
    old = _answered(body.old, None if feedback is None else feedback.unfull, decision)
    new = _answered(body.new, None if feedback is None else feedback.full, decision)
    if not decision.teams:
        return [(decision, old, new)]
    teams = dict.fromkeys(team for team in decision.teams if team)
    return [_own_part(decision, team, old, new) for team in teams]


def examples_of(policy: Policy, part: Decided, old: Answered, new: Answered) -> Iterator[Example]:
    """Yield the examples of a policy from the entries that it picked."""
    entries = zip(part.arms, part.features, part.pinned, strict=True)
    slate = [_choice(policy, *entry) for entry in entries]
    return examples(slate, part.failures, old, new)


def _own_part(decision: Decided, team: str, old: Answered, new: Answered) -> Part:
    """Return the entries that a policy picked itself, with what is known of them alone."""
    places = [at for at, name in enumerate(decision.teams) if name == team]

    def of(known: Answered) -> Answered:
        rewards = known.rewards
        return Answered([rewards[at] if at < len(rewards) else None for at in places])

    own = decision._replace(
        policy=team,
        arms=[decision.arms[at] for at in places],
        features=[decision.features[at] for at in places],
        pinned=[decision.pinned[at] for at in places],
        failures=b"",
        teams=(),
    )
    return own, of(old), of(new)


def _choice(policy: Policy, arm: int, features: Sequence[float], pinned: bool = False) -> Choice:
    """Return an entry to learn from; a pinned one has no features, and counts as 0."""
    row = np.array(features if features else np.zeros(policy.dimension), np.float64)
    return Choice(arm, row, 0.0, 1.0, pinned=pinned)


def _answered(rewards: Rewards, known: NextQuery | None, decision: Decided) -> Answered:
    """Return what is known of a slate, with the candidate that came next as it was then."""
    if known is None:
        return Answered(rewards)
    failures = base64.b64decode(known.failures, validate=True)
    if known.arm is None:
        return Answered(rewards, True, None, failures)
    shown = dict(zip(decision.arms, decision.features, strict=True))
    features = np.array(shown.get(known.arm, known.features), np.float64)
    return Answered(rewards, True, Choice(known.arm, features, 0.0, 1.0), failures)
