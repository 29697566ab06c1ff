"""Which decisions of a log can be used for an estimate, and why others cannot."""

from typing import NamedTuple

from nextquery.loop import Offered
from nextquery.segments import text_of
from nextquery.service.evaluate.plan import Planned
from nextquery.service.log.events import PINNED, SlateEntry
from nextquery.service.log.store import StoredDecision
from nextquery.service.model.state import State

OUTSIDE = "outside --since and --until"
WAITING = "not answered yet"
UNDELIVERED = "never reached their user"
FALLBACK = "answered by similarity, or while recommendations were switched off"
EMPTY = "without an entry that the policy chose"
CLICKED_PIN = "a pin was clicked, which says nothing about the entries below"
LEFT_OUT = "left out by operators, or more than one user may teach in a day"
ESTIMATED = "with propensities that are estimates (Thompson sampling)"
UNKNOWN = "without known propensities"
ERASED = "of which a person was forgotten"
OTHER_POOL = "decided with an earlier pool"
SETTINGS = "made with other settings of the candidates than the newest model"
UNEXPLORED = "made without exploration, so that nothing else could be shown"
NOT_FOUND = "whose candidates could not be found again"


class Span(NamedTuple):
    """The times that are used: Unix seconds from `since` to before `until`."""

    since: float | None = None
    until: float | None = None

    def holds(self, time: float) -> bool:
        """Whether a time is in it.

        >>> Span(10.0).holds(9.0), Span(10.0, 20.0).holds(10.0), Span(until=20.0).holds(20.0)
        (False, True, False)
        """
        after = self.since is None or time >= self.since
        return after and (self.until is None or time < self.until)


def chosen(decision: StoredDecision) -> list[SlateEntry]:
    """Return the entries that a policy chose, from the top."""
    return [entry for entry in decision.body.slate if entry.source != PINNED]


def teaches(decision: StoredDecision, state: State) -> bool:
    """Whether later events teach a policy something about a decision."""
    body = decision.body
    taught = state.teaches(decision.position, body)
    return taught and bool(body.slate) and bool(body.query) and not body.fallback


def why_not(planned: Planned, decision: StoredDecision, state: State, span: Span) -> str | None:
    """Return why a decision cannot be used; None if it can, as far as its event says."""
    body, entries = decision.body, chosen(decision)
    pins = {entry.arm for entry in body.slate if entry.source == PINNED}
    reasons = {
        OUTSIDE: not span.holds(decision.time),
        FALLBACK: body.fallback or body.policy == "off",
        UNDELIVERED: decision.state == "undelivered",
        ERASED: not body.query,
        EMPTY: not entries,
        LEFT_OUT: not state.teaches(planned.position, body),
        WAITING: decision.state == "open",
        CLICKED_PIN: decision.accepted in pins,
        ESTIMATED: any(entry.propensity_estimated for entry in entries),
        UNKNOWN: not all(0.0 < entry.propensity <= 1.0 for entry in entries),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def found_again(decision: StoredDecision, offered: Offered) -> bool:
    """Whether a decision was drawn from these candidates, as far as its event says."""
    public = int((offered.candidates.arms >= 0).sum())
    arms = set(offered.ranked.arms.tolist())
    own = offered.ranked.own_texts

    def there(entry: SlateEntry) -> bool:
        same = entry.arm >= 0 or text_of(own.get(entry.arm, "")) == entry.text
        return entry.arm in arms and same

    return public == decision.body.candidates and all(map(there, chosen(decision)))
