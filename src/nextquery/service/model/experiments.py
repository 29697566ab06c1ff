"""Several policies at once: a model for each, what outcomes teach them, and their comparison.

Each policy of a model event has its own model, and keeps its live learning. Snapshots store
arrays as `.npz` without pickle: the same arrays give the same bytes.

*Comparison.* A session counts once, by its first slate. It is a hit if a recommendation was
accepted, or if the query that was typed instead was among them. Slates that teach nothing or were
never delivered do not count. Chance decides which policy a session has. Its result counts for
that policy, also if another one had to answer.

Sessions are counted in the order in which they began, each when it and all before it are closed.
A click closes a slate in seconds and a time-out after a minute. In the order of closing, a policy
whose people leave sooner would look better or worse while the others' slates are open.

*Interleaving* puts two policies in one slate, and counts whose entries are accepted.
"""

import base64
import io
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.experiments.assignment import Credits, Shares
from nextquery.experiments.sequential import ALPHA, Difference, Watch
from nextquery.forecast import Fitted
from nextquery.learning import Answered, Example, Rewards, examples
from nextquery.policies import Choice, Policy
from nextquery.policies.registry import policy_class
from nextquery.service.log import events
from nextquery.service.settings import CONTROL

Arrays = dict[str, NDArray[Any]]


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Pack arrays into a compressed `.npz`; equal arrays give equal bytes.

    >>> unpacked(packed({"a": np.arange(3)}))["a"].tolist()
    [0, 1, 2]
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(arrays[name]), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, member.getvalue(), compresslevel=1)
    return out.getvalue()


def unpacked(data: bytes) -> Arrays:
    """Read the arrays that `packed` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def to_text(data: bytes) -> str:
    """Encode bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


def from_text(text: str) -> bytes:
    """Decode what `to_text` wrote."""
    return base64.b64decode(text)


def within(arrays: Mapping[str, NDArray[Any]], folder: str) -> Arrays:
    """Return the arrays whose name starts with ``folder/``, without that prefix."""
    start = folder + "/"
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}


def under(folder: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The inverse of `within`."""
    return {f"{folder}/{name}": array for name, array in arrays.items()}


TAUGHT = "taught"
"""In the arrays of a model event: a policy of the same class that has learnt only what another log
taught."""


def policy_of(body: events.ModelEvent) -> Policy:
    """Return the main policy of a model event, as it was before any live learning."""
    return restored(body, unpacked(from_text(body.arrays)))[1]


def policies_of(body: events.ModelEvent) -> dict[str, Policy]:
    """Return all policies of a model event by name, the main one first."""
    arrays = unpacked(from_text(body.arrays))
    event, policy = restored(body, arrays)
    return {event.policy: policy, **other_policies(body, arrays)}


def restored(body: events.ModelEvent, arrays: Arrays) -> tuple[events.ModelEvent, Policy]:
    """Return a model event without its arrays, and its main policy."""
    state = within(arrays, "policy")
    return replace(body, arrays=""), policy_class(body.policy).from_state(state)


def other_policies(body: events.ModelEvent, arrays: Arrays) -> dict[str, Policy]:
    """Return the policies beside the main one, from the arrays of an event or of a snapshot."""
    found: dict[str, Policy] = {}
    for number, one in enumerate(body.beside):
        state = within(arrays, f"{other_folder(number)}/policy")
        found[one.policy] = policy_class(one.policy).from_state(state)
    return found


def other_folder(number: int) -> str:
    """The folder of a policy beside the main one, in arrays."""
    return f"beside/{number}"


def described(body: events.ModelEvent) -> dict[str, object]:
    """Return the fields that a snapshot keeps of a model event."""
    return {name: value for name, value in asdict(body).items() if name != "arrays"}


def event_of(fields: Mapping[str, Any]) -> events.ModelEvent:
    """Return the model event that `described` described."""
    others = tuple(events.OtherModel(**one) for one in fields["beside"])
    return events.ModelEvent(**{**fields, "beside": others}, arrays="")


def half_life_of(model: events.ModelEvent) -> float | None:
    """Return the half-life of a model's memory, in days."""
    half_life = model.settings.get("half_life_days")
    return None if half_life is None else float(half_life)


class Decided(NamedTuple):
    """What later events need to know about a decision."""

    arms: list[int]
    features: list[tuple[float, ...]]
    policy: str
    model: int
    fallback: bool
    time: float
    position: int
    teaches: bool
    failures: bytes
    personal: bool  #: whether it was made for a person with a past of their own
    pinned: Sequence[bool] = ()  #: which entries were
    assigned: str = ""  #: the policy of its session
    teams: Sequence[str | None] = ()  #: the policies that picked the entries of an interleaved one

    @classmethod
    def of(cls, body: events.DecisionEvent, time: float, position: int) -> "Decided":
        """Take it from the event of the decision."""
        features = [entry.features for entry in body.slate]
        made_by = (body.policy, body.model, body.fallback)
        failures = base64.b64decode(body.failures)
        personal = body.own is not None
        made = cls(body.arms, features, *made_by, time, position, body.teaches, failures, personal)
        return made._replace(
            pinned=[entry.source == events.PINNED for entry in body.slate],
            assigned=body.assigned or body.policy,
            teams=[entry.team for entry in body.slate] if any(e.team for e in body.slate) else (),
        )


class Past(Protocol):
    """Earlier events that a later one refers to."""

    def decision(self, decision_id: str) -> Decided:
        """Return a decision by its id."""

    def model(self, position: int) -> events.ModelEvent:
        """Return the model event at a position."""


@dataclass
class Branch:
    """A policy, its calibration, and the models whose decisions teach it.

    `lineage` has the positions of these models, each with the name that the policy had in it; an
    empty name stands for every decision of that model, which had one policy.
    """

    policy: Policy
    calibration: Fitted = field(default_factory=dict)
    lineage: dict[int, str] = field(default_factory=dict)

    def learns_from(self, model: int, policy: str) -> bool:
        """Whether a decision of this policy of this model teaches it."""
        return self.lineage.get(model, None) in ("", policy)


class ModelBranches(NamedTuple):
    """A model event without its arrays, its main policy, and those beside it by name."""

    event: events.ModelEvent
    main: Branch
    others: dict[str, Branch]


def begin(
    at: events.Event, body: events.ModelEvent, earlier: Mapping[str, Branch], past: Past
) -> ModelBranches:
    """Return the policies of a model event, each with what it keeps of `earlier` ones.

    `earlier` are the policies in force, the main one first.
    """
    arrays = unpacked(from_text(body.arrays))
    event, policy = restored(body, arrays)
    if taught := within(arrays, TAUGHT):
        policy.take_over(type(policy).from_state(taught), type(policy)(**policy.get_params()))
    name = event.policy if event.beside else ""
    main = Branch(policy, within(arrays, "calibration"))
    if body.continues is not None:
        source = body.continued or next(iter(earlier))
        _go_on(main, earlier[source], source, body.continues, at.time, past)
    main.lineage[at.position] = name
    others = _with_calibration(event, other_policies(body, arrays), arrays)
    for one in event.beside:
        branch = others[one.policy]
        if one.continues is not None:
            source = one.policy
            _go_on(branch, earlier[source], source, one.continues, at.time, past)
        branch.lineage[at.position] = one.policy
    return ModelBranches(event, main, others)


def _go_on(branch: Branch, source: Branch, name: str, model: int, time: float, past: Past) -> None:
    """Let a policy keep what another one, called `name` in an earlier model, has learnt live."""
    known = policies_of(past.model(model))
    base = known.get(name) or next(iter(known.values()))
    branch.policy.move_to(time)  # what was learnt live is as new as this event
    branch.policy.take_over(source.policy, base)
    branch.lineage = dict(source.lineage)


def restored_branches(
    event: events.ModelEvent, arrays: Arrays, lineages: Mapping[str, Mapping[str, str]]
) -> dict[str, Branch]:
    """Return the policies beside the main one from a snapshot."""
    found = _with_calibration(event, other_policies(event, arrays), arrays)
    for name, lineage in lineages.items():
        found[name].lineage = {int(at): then for at, then in lineage.items()}
    return found


def _with_calibration(
    event: events.ModelEvent, policies: Mapping[str, Policy], arrays: Arrays
) -> dict[str, Branch]:
    return {
        one.policy: Branch(
            policies[one.policy], within(arrays, f"{other_folder(number)}/calibration"), {}
        )
        for number, one in enumerate(event.beside)
    }


def continuing(
    body: events.ModelEvent, last: events.ModelEvent, position: int
) -> events.ModelEvent:
    """Return a new model event that keeps what the policies of the one before have learnt live.

    A policy goes on under its name. The main one also goes on from the main one before, whatever
    its name, unless that goes on beside it. Both must learn from the same features.
    """
    known, new = policies_of(last), policies_of(body)
    before = next(iter(known))

    def same(name: str, source: str) -> bool:
        return source in known and known[source].learns == new[name].learns

    def kept(one: events.OtherModel) -> events.OtherModel:
        return replace(one, continues=position) if same(one.policy, one.policy) else one

    others = tuple(map(kept, body.beside))
    taken = {one.policy for one in others}
    source = body.policy if body.policy in known else before
    if source in taken or not same(body.policy, source):
        return replace(body, beside=others)
    continued = "" if source == before else source
    return replace(body, beside=others, continues=position, continued=continued)


def loses(last: events.ModelEvent, new: Mapping[str, Policy]) -> bool:
    """Whether what the main policy of a model has learnt ends with the policies of a new one."""
    name, policy = next(iter(policies_of(last).items()))
    main, first = next(iter(new.items()))
    goes_on = name in new and new[name].learns == policy.learns
    return not goes_on and first.learns != policy.learns and main not in policies_of(last)


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
        self.stopped: list[str] = []  # whose sessions are not counted
        self.alarms: list[str] = []
        self.waiting: OrderedDict[int, tuple[str, bool | None]] = OrderedDict()
        self.alpha = ALPHA / max(1, len(learning))  # of each watch, so that it holds for all
        for policy in learning if CONTROL in shares else ():
            self.watch(policy, since)

    @classmethod
    def next(
        cls,
        before: "Comparison | None",
        event: events.ModelEvent,
        position: int,
        *,
        policies: Mapping[str, Branch],
        fallbacks: Iterable[str],
    ) -> "Comparison | None":
        """Return the one of a model event: `before` goes on if the same policies share the same."""
        shares = {name: share for name, share in event.shares.items() if share}
        if len(shares) < 2:
            return None
        if before is not None and list(before.shares.items()) == list(shares.items()):
            return before
        new = cls(shares, position, [name for name in shares if policies[name].policy.learns])
        new.stopped = list(fallbacks)
        return new

    def watch(self, policy: str, since: int) -> None:
        """Watch a policy, from the sessions that begin after a position."""
        alarm = [one for one in self.alarms if one != policy]
        self.alarms = alarm
        self.watches[policy] = Watch(self._of_two(policy, CONTROL), alpha=self.alpha)
        self.watched_since[policy] = since

    def restart(self, since: int) -> None:
        """Begin all watches again, since the models are others."""
        for policy in self.watches:
            self.watch(policy, since)

    def stop_counting(self, policy: str) -> None:
        """Do not count the sessions of this policy any more."""
        self.stopped = [*self.stopped, policy]

    def go_on(self, policy: str, since: int) -> None:
        """Count the sessions of this policy again."""
        self.stopped = [one for one in self.stopped if one != policy]
        if policy in self.watches:
            self.watch(policy, since)

    def add(self, seen: Seen) -> None:
        """Count a session."""
        policy, position, hit = seen
        if policy not in self.shares or position < self.since or policy in self.stopped:
            return
        self.sessions[policy] += 1
        self.hits[policy] += hit
        main = next(iter(self.shares))
        for other, difference in self.differences.items():
            if policy in (main, other) and not {main, other} & {*self.stopped}:
                difference.add(hit=hit, second=policy == other)
        for watched, watch in self.watches.items():
            if policy not in (watched, CONTROL) or watched in self.stopped:
                continue
            if position > self.watched_since[watched]:
                watch.add(hit=hit, second=policy == CONTROL)
                if watched not in self.alarms and bool(watch.alarm):
                    self.alarms = [*self.alarms, watched]

    def began(self, position: int, policy: str) -> None:
        """Take the first slate of a session."""
        if len(self.waiting) < MOST_WAITING:
            self.waiting[position] = (policy, None)

    def closed(self, body: events.OutcomeEvent, decision: Decided) -> None:
        """Take the outcome of a slate, if it is the first one of a session and was open."""
        waits = self.waiting.get(decision.position)
        if waits is None or body.was != "open" or body.state == "open":
            return
        if body.state in ("accepted", "failed"):
            typed = isinstance(body, events.FeedbackEvent) and body.foreseen
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
            "fallen": self.stopped,
            "waiting": [[at, *waiting] for at, waiting in self.waiting.items()],
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
        self.stopped = state["fallen"]
        for position, policy, hit in state["waiting"]:
            self.waiting[position] = (policy, hit)
        read = Difference.from_state
        self.differences = {
            name: read(state["differences"][name]) for name in list(self.shares)[1:]
        }
        self.watches = {name: Watch.from_state(one) for name, one in state["watches"].items()}
        return self


_PLAIN = ("since", "alpha", "sessions", "hits", "watched_since", "alarms")


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
        cls, before: "Interleaving | None", event: events.ModelEvent, position: int
    ) -> "Interleaving | None":
        """Return the one of a model event: `before` goes on if it has the same policies."""
        policies = (event.policy, event.interleaved)
        if not event.interleaved:
            return None
        if before is not None and before.policies == policies:
            return before
        return cls(policies, position)

    def closed(self, body: events.OutcomeEvent, decision: Decided) -> None:
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


def _clicked(body: events.OutcomeEvent, decision: Decided) -> int | None:
    if not isinstance(body, events.FeedbackEvent):
        return None
    if body.accepted is not None:
        return body.accepted
    if not body.foreseen:
        return None
    return body.issued if body.issued is not None or body.full is None else body.full.arm


Part = tuple[Decided, Answered, Answered]
"""Entries that one policy picked, with what was known of them before and is known now."""


def parts_of(body: events.OutcomeEvent, decision: Decided) -> list[Part]:
    """Return what an outcome tells each policy that picked entries; nothing after a fallback."""
    if decision.fallback:
        return []
    feedback = body if isinstance(body, events.FeedbackEvent) else None
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


def _answered(rewards: Rewards, known: events.NextQuery | None, decision: Decided) -> Answered:
    """Return what is known of a slate, with the candidate that came next as it was then."""
    if known is None:
        return Answered(rewards)
    failures = base64.b64decode(known.failures, validate=True)
    if known.arm is None:
        return Answered(rewards, True, None, failures)
    shown = dict(zip(decision.arms, decision.features, strict=True))
    features = np.array(shown.get(known.arm, known.features), np.float64)
    return Answered(rewards, True, Choice(known.arm, features, 0.0, 1.0), failures)
