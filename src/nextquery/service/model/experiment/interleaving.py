"""Two policies in one slate: whose entries are accepted."""

from collections.abc import Sequence
from typing import Any

from nextquery.experiments.assignment import Credits
from nextquery.service.log.events import FeedbackEvent, ModelEvent, OutcomeEvent
from nextquery.service.model.past import Decided


class Interleaving:
    """The clicks on the entries of two policies, from the decisions since a position.

    A slate counts when it is closed: the accepted entry, or the one whose query was typed instead,
    is a click for the policy that picked it.
    """

    def __init__(
        self, policies: tuple[str, str], since: int, clicks: Sequence[int] = (0, 0)
    ) -> None:
        self.policies, self.since, self.credits = policies, since, Credits(clicks)

    @classmethod
    def next(
        cls, before: "Interleaving | None", event: ModelEvent, position: int
    ) -> "Interleaving | None":
        """Return the one of a model event: `before` goes on if it has the same policies."""
        policies = (event.policy, event.interleaved)
        if not event.interleaved:
            return None
        if before is not None and before.policies == policies:
            return before
        return cls(policies, position)

    def closed(self, body: OutcomeEvent, decision: Decided) -> None:
        """Count the click of a slate, if this outcome closes it with one."""
        if body.was != "open" or decision.position < self.since or not any(decision.teams):
            return
        clicked = _clicked(body, decision)
        if clicked in decision.arms:
            team = decision.teams[decision.arms.index(clicked)]
            if team in self.policies:
                self.credits.add(team=self.policies.index(team))

    def copy(self) -> "Interleaving":
        """Return an independent copy."""
        return Interleaving(self.policies, self.since, self.credits.clicks)

    def state(self) -> list[Any]:
        """Return all of it, as JSON can say it."""
        return [list(self.policies), self.since, self.credits.state()]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> "Interleaving":
        """Restore what `state` returned."""
        policies, since, clicks = state
        return cls((policies[0], policies[1]), since, clicks)


def _clicked(body: OutcomeEvent, decision: Decided) -> int | None:
    if not isinstance(body, FeedbackEvent):
        return None
    if body.accepted is not None:
        return body.accepted
    if not body.foreseen:
        return None
    return body.issued if body.issued is not None or body.full is None else body.full.arm
