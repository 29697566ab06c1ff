"""What the sessions say of the policies that share them.

A session counts once, by its first slate: a hit if a recommendation was accepted, or if the query
that was typed instead was among them. Slates that teach nothing or never reached anybody do not
count. Which policy a session has is chance; what happens to it is counted for that policy, also if
another one had to answer.

Sessions are counted in the order in which they began, each when it and all before it are closed. A
click closes a slate in seconds and a time-out after a minute. In the order of closing, a policy
whose people leave sooner would seem better or worse for as long as the others' slates are open.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from nextquery.experiments.assignment import Shares
from nextquery.experiments.sequential import ALPHA, Difference, Watch
from nextquery.service.log.events import FeedbackEvent, ModelEvent, OutcomeEvent
from nextquery.service.model.experiment.branches import Branch
from nextquery.service.model.past import Decided
from nextquery.service.settings.split import CONTROL

MOST_WAITING = 10_000
"""Sessions that wait to be counted. One that begins while so many wait is left out, whatever its
policy and its outcome: to leave out one that waits long would be unfair to slow people's policy."""


class Seen(NamedTuple):
    """A session whose first slate is closed; `position` is that of its decision."""

    policy: str
    position: int
    hit: bool


class Comparison:
    """Sessions and hits of every policy, their differences, and the watches of those that learn.

    Parameters
    ----------
    shares : the share of the sessions that each policy gets, the main one first.
    since : decisions before this position do not count.
    learning : the policies that learn: each is watched, if there is a control.

    >>> comparison = Comparison({"a": 0.5, CONTROL: 0.5}, 0, ["a"])
    >>> for number in range(300):
    ...     comparison.add(Seen(("a", CONTROL)[number % 2], number, number % 2 == 1))
    >>> comparison.sessions, comparison.alarms
    ({'a': 150, 'most-similar-first': 150}, ['a'])
    """

    def __init__(self, shares: Shares, since: int, learning: list[str]) -> None:
        self.shares, self.since = dict(shares), since
        self.sessions, self.hits = dict.fromkeys(shares, 0), dict.fromkeys(shares, 0)
        main, *others = shares
        self.differences = {other: Difference(self._of_two(main, other)) for other in others}
        self.watches: dict[str, Watch] = {}
        self.watched_since: dict[str, int] = {}
        self.fallen: list[str] = []  # whose sessions get something else
        self.alarms: list[str] = []
        self.waiting: OrderedDict[int, tuple[str, bool | None]] = OrderedDict()
        self.alpha = ALPHA / max(1, len(learning))  # of each watch, so that it holds for all
        for policy in learning if CONTROL in shares else ():
            self.watch(policy, since)

    @classmethod
    def next(
        cls,
        before: "Comparison | None",
        event: ModelEvent,
        position: int,
        *,
        policies: Mapping[str, Branch],
        fallen: Iterable[str],
    ) -> "Comparison | None":
        """Return the one of a model event: `before` goes on if the same policies share the same."""
        shares = {name: share for name, share in event.shares.items() if share}
        if len(shares) < 2:
            return None
        if before is not None and list(before.shares.items()) == list(shares.items()):
            return before
        new = cls(shares, position, [name for name in shares if policies[name].policy.learns])
        new.fallen = list(fallen)
        return new

    def watch(self, policy: str, since: int) -> None:
        """Watch a policy, from the sessions that begin after a position."""
        alarm = [one for one in self.alarms if one != policy]
        self.alarms = alarm
        self.watches[policy] = Watch(self._of_two(policy, CONTROL), alpha=self.alpha)
        self.watched_since[policy] = since

    def restart(self, since: int) -> None:
        """Begin all watches anew, since the models are others."""
        for policy in self.watches:
            self.watch(policy, since)

    def fell_back(self, policy: str) -> None:
        """Do not count the sessions of this policy any more."""
        self.fallen = [*self.fallen, policy]

    def go_on(self, policy: str, since: int) -> None:
        """Count the sessions of this policy again."""
        self.fallen = [one for one in self.fallen if one != policy]
        if policy in self.watches:
            self.watch(policy, since)

    def add(self, seen: Seen) -> None:
        """Count a session."""
        policy, position, hit = seen
        if policy not in self.shares or position < self.since or policy in self.fallen:
            return
        self.sessions[policy] += 1
        self.hits[policy] += hit
        main = next(iter(self.shares))
        for other, difference in self.differences.items():
            if policy in (main, other) and not {main, other} & {*self.fallen}:
                difference.add(hit=hit, second=policy == other)
        for watched, watch in self.watches.items():
            if policy not in (watched, CONTROL) or watched in self.fallen:
                continue
            if position > self.watched_since[watched]:
                watch.add(hit=hit, second=policy == CONTROL)
                if watched not in self.alarms and bool(watch.alarm):
                    self.alarms = [*self.alarms, watched]

    def began(self, position: int, policy: str) -> None:
        """Take the first slate of a session."""
        if len(self.waiting) < MOST_WAITING:
            self.waiting[position] = (policy, None)

    def closed(self, body: OutcomeEvent, decision: Decided) -> None:
        """Take the outcome of a slate, if it is the first one of a session and was open."""
        waits = self.waiting.get(decision.position)
        if waits is None or body.was != "open" or body.state == "open":
            return
        if body.state in ("accepted", "failed"):
            typed = isinstance(body, FeedbackEvent) and body.foreseen
            hit = body.state == "accepted" or bool(typed)
            self.waiting[decision.position] = (waits[0], hit)
        else:
            del self.waiting[decision.position]
        self._count()

    def _count(self) -> None:
        """Count the sessions that no earlier one waits for."""
        while self.waiting:
            position, (policy, hit) = next(iter(self.waiting.items()))
            if hit is None:
                return
            del self.waiting[position]
            self.add(Seen(policy, position, hit))

    def _of_two(self, one: str, other: str) -> tuple[float, float]:
        both = self.shares[one] + self.shares[other]
        return self.shares[one] / both, self.shares[other] / both

    def copy(self) -> "Comparison":
        """Return an independent copy."""
        return deepcopy(self, {id(self.waiting): self.waiting.copy()})

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON can say it."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "waiting": [[at, *told] for at, told in self.waiting.items()],
            "shares": list(self.shares.items()),  # their order tells which is the main one
            "differences": {name: one.state() for name, one in self.differences.items()},
            "watches": {name: one.state() for name, one in self.watches.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Comparison":
        """Restore what `state` returned."""
        self = cls(dict(state["shares"]), state["since"], [])
        for name in _PLAIN:
            setattr(self, name, state[name])
        for position, policy, hit in state["waiting"]:
            self.waiting[position] = (policy, hit)
        read = Difference.from_state
        self.differences = {
            name: read(state["differences"][name]) for name in list(self.shares)[1:]
        }
        self.watches = {name: Watch.from_state(one) for name, one in state["watches"].items()}
        return self


_PLAIN = ("since", "alpha", "sessions", "hits", "watched_since", "fallen", "alarms")
