"""Estimate what policies that did not run would have earned, from the log of the one that did.

The log is read in order. Each policy is asked about a decision at its position, and learns only
from what it could have known there. A plan has the time of each decision, and what later events
say of it. Decisions that cannot be used are counted, with the reason.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.experiments.off_policy import ENOUGH, ESTIMATORS, Estimate, Logged
from nextquery.learning import Answered, Example, ModelState, Replaced, Rewards, examples
from nextquery.loop import Loop, Offered, ToRank
from nextquery.memory import Moment
from nextquery.policies import Choice, Policy
from nextquery.policies.policy import Floats
from nextquery.policies.registry import live_policy
from nextquery.segments import text_of
from nextquery.service.engine.experiments import Assignment
from nextquery.service.engine.slates import CandidateCache, CandidateRequest, session_state_before
from nextquery.service.log import events, schema
from nextquery.service.log.store import Store, StoredDecision
from nextquery.service.log.teaching import RollBacks
from nextquery.service.model import experiments
from nextquery.service.model.catalogue import PoolOfLog, ServedCatalogue
from nextquery.service.model.learner import Learner, foreseeing
from nextquery.service.model.prepare import check_pool, first_model, loop_of
from nextquery.service.model.state import State
from nextquery.service.settings import EngineOptions
from nextquery.warm_start import StepProgress

_OUTCOMES = (events.FeedbackEvent.kind, events.TimeoutEvent.kind, events.UndeliveredEvent.kind)
_PAGE = 1000


class Planned(NamedTuple):
    """A decision: `named` are the arms that later events say came next, `last` is where they end.

    It is known beforehand, so that only what is needed is kept until then.
    """

    id: str
    position: int
    named: frozenset[int]
    last: int


class Plan(NamedTuple):
    """The decisions up to a position, by the position that the model had when it made them."""

    made_at: dict[int, list[Planned]]
    decisions: int
    erased: int  #: events of which only the position is left


def planned(
    store: Store, until: int, *, progress: Callable[[float], None] = lambda done: None
) -> Plan:
    """Read the log once; `progress` is called with the share that was read, page by page."""
    named: dict[str, set[int]] = defaultdict(set)
    last: dict[str, int] = {}
    found: list[tuple[int, str, int]] = []
    for number, (position, kind, decision_id, text) in enumerate(_rows(store, until), start=1):
        if number % _PAGE == 0:
            progress(position / until)
        body = events.from_json(kind, text, position)
        if isinstance(body, events.DecisionEvent):
            found.append((body.model_version, decision_id, position))
            continue
        last[decision_id] = position
        if isinstance(body, events.FeedbackEvent):
            named[decision_id] |= _named(body)
    made_at: dict[int, list[Planned]] = defaultdict(list)
    for version, decision_id, position in found:
        arms = frozenset(named.get(decision_id, ()))
        made = Planned(decision_id, position, arms, last.get(decision_id, 0))
        made_at[min(version, position - 1)].append(made)
    return Plan(dict(made_at), len(found), _erased(store, until))


def _named(body: events.FeedbackEvent) -> set[int]:
    following = [part.arm for part in (body.full, body.unfull) if part is not None]
    return {arm for arm in (*following, body.issued) if arm is not None}


def _rows(store: Store, until: int) -> Iterator[tuple[int, str, str, str]]:
    columns = (
        schema.events.c.position,
        schema.events.c.kind,
        schema.events.c.decision_id,
        schema.events.c.body,
    )
    wanted = schema.events.c.kind.in_((events.DecisionEvent.kind, *_OUTCOMES))
    after = 0
    while True:
        here = sa.and_(wanted, schema.events.c.position > after, schema.events.c.position <= until)
        found = sa.select(*columns).where(here).order_by(schema.events.c.position).limit(_PAGE)
        with store.reading() as connection:
            rows = connection.execute(found).all()
        yield from (tuple(row) for row in rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1].position


def _erased(store: Store, until: int) -> int:
    these = (schema.events.c.kind == events.Forgotten.kind, schema.events.c.position <= until)
    found = sa.select(sa.func.count()).select_from(schema.events).where(*these)
    with store.reading() as connection:
        return int(connection.execute(found).scalar_one())


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


def chosen(decision: StoredDecision) -> list[events.SlateEntry]:
    """Return the entries that a policy chose, from the top."""
    return [entry for entry in decision.body.slate if entry.source != events.PINNED]


def teaches(decision: StoredDecision, state: State) -> bool:
    """Whether later events teach a policy something about a decision."""
    body = decision.body
    taught = state.teaches(decision.position, body)
    return taught and bool(body.slate) and bool(body.query) and not body.fallback


def why_not(planned: Planned, decision: StoredDecision, state: State, span: Span) -> str | None:
    """Return why a decision cannot be used; None if it can, as far as its event says."""
    body, entries = decision.body, chosen(decision)
    pins = {entry.arm for entry in body.slate if entry.source == events.PINNED}
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

    def there(entry: events.SlateEntry) -> bool:
        same = entry.arm >= 0 or text_of(own.get(entry.arm, "")) == entry.text
        return entry.arm in arms and same

    return public == decision.body.candidates and all(map(there, chosen(decision)))


class PendingSlate(NamedTuple):
    """What later events need to teach the policy about a slate.

    An entry that is no candidate of this policy is None. `known` are the candidates that later
    events name.
    """

    slate: list[Choice | None]
    known: dict[int, Choice]
    failures: bytes
    time: float
    position: int
    last: int


class Target:
    """A policy with a loop of its own, on the arms and the memory of the log.

    It begins with the warm start from the pool, as in `nextquery serve`, and learns from what the
    slates of the log showed: by the rule of the service, and no sooner than the log says.
    """

    def __init__(
        self, name: str, loop: Loop, options: EngineOptions, progress: StepProgress | None = None
    ) -> None:
        self.name = name
        own = replace(options, policy=name, alpha=None)
        model = first_model(loop.catalogue.pool, own, progress)
        calibration = experiments.within(
            experiments.unpacked(experiments.from_text(model.arrays)), "calibration"
        )
        model_state = ModelState(
            experiments.policy_of(model),
            calibration,
            loop.model_state.live,
            loop.model_state.people,
        )
        self.loop = loop.with_model(model_state)  # the memory stays that of the log
        self.policy = model_state.policy
        self._lessons: dict[str, PendingSlate] = {}

    def go_on(self, kept: Mapping[str, Policy], known: Mapping[str, Policy]) -> None:
        """Begin with what the policies of the log keep from earlier pools, if it means the same.

        `kept` are the policies in force, `known` the same ones before any live learning.
        """
        for name, policy in kept.items():
            if policy.learns == self.policy.learns and policy.updates_since(known[name]):
                self.policy.take_over(type(policy).from_state(policy.state()), known[name])

    def learn_from_before(
        self, body: events.OutcomeEvent, decision: experiments.Decided, state: State
    ) -> None:
        """Learn from the outcome of a slate of an earlier pool, if a policy of the log does.

        Its candidates cannot be selected again. The log has what such a policy learns from them.
        """
        left_out = state.roll_backs.leave_out(state.position, decision.position)
        if left_out or not state.teaches(decision.position, decision):
            return
        for part, old, new in experiments.parts_of(body, decision):
            taught = state.taught(part)
            if taught is not None and taught.learns == self.policy.learns:
                for example in experiments.examples_of(self.policy, part, old, new):
                    example.learn(self.policy, decision.time)

    def offered(self, asked: ToRank, at: Moment, log: Loop, by_log: Offered) -> Offered:
        """Return what this policy would have drawn from."""
        same = self.policy.needs_memory == log.policy.needs_memory and not asked.at_least
        return by_log if same else self.loop.offered(asked, at)

    def drawn(self, asked: ToRank, offered: Offered, arms: Sequence[int]) -> list[Floats]:
        """Return how probable each candidate is at each place of the logged slate."""
        state = asked.session_state
        rng = self.loop.draws(state.session, state.trial + 1).spawn(2)[1]
        return self.policy.distributions(
            offered.ranked, offered.context, arms, rng, exploration=self.loop.exploration
        )

    def follow(
        self, planned: Planned, decision: StoredDecision, offered: Offered, rng: np.random.Generator
    ) -> None:
        """Keep what later events will teach about a slate, if there are any."""
        if not planned.last:
            return

        def choice(arm: int) -> Choice | None:
            return self.policy.as_choice(offered.candidates, offered.context, arm)

        slate = [
            Choice(entry.arm, np.empty(0), 0.0, 1.0, pinned=True)
            if entry.source == events.PINNED
            else choice(entry.arm)
            for entry in decision.body.slate
        ]
        named = ((arm, choice(arm)) for arm in planned.named)
        known = {arm: found for arm, found in named if found is not None}
        failures = self.policy.failures(offered.candidates, offered.context, rng)
        self._lessons[planned.id] = PendingSlate(
            slate, known, failures, decision.time, planned.position, planned.last
        )

    def learn(self, event: events.Event, roll_backs: RollBacks) -> None:
        """Learn from an event, if it is the outcome of a slate that was followed."""
        lesson = self._lessons.get(event.decision_id or "")
        if lesson is None or not isinstance(event.body, events.OutcomeEvent):
            return
        if not roll_backs.leave_out(event.position, lesson.position):
            for example in _examples(event.body, lesson):
                example.learn(self.policy, lesson.time)
        if event.position >= lesson.last:
            del self._lessons[event.decision_id or ""]


def _examples(body: events.OutcomeEvent, lesson: PendingSlate) -> list[Example]:
    """Return what an outcome teaches, as `State.lessons` does for the models that ran."""
    feedback = body if isinstance(body, events.FeedbackEvent) else None
    placeholder = Choice(-1, np.empty(0), 0.0, 1.0)
    slate = [placeholder if choice is None else choice for choice in lesson.slate]
    old, new = Answered(body.old), Answered(body.new)
    if feedback is not None:
        old = _answered(body.old, feedback.unfull, None, lesson)
        new = _answered(body.new, feedback.full, feedback.issued, lesson)
    return [
        example
        for example in examples(slate, lesson.failures, old, new)
        if not isinstance(example, Replaced) or example.choice is not placeholder
    ]


def _answered(
    rewards: Rewards, following: events.NextQuery | None, typed: int | None, lesson: PendingSlate
) -> Answered:
    """Return what is known of a slate; the next query may be a candidate of this policy alone."""
    if following is None:
        return Answered(rewards)
    arm = typed if following.arm is None else following.arm
    return Answered(rewards, True, None if arm is None else lesson.known.get(arm))


Progress = Callable[[str, float | None], None]
OF_CANDIDATES = ("k", "selection", "reading", "epsilon", "schedule", "reselect")
_OF_MODEL = (
    *OF_CANDIDATES[:-1],
    *("memory_sessions", "warm_sessions", "warm_examples", "half_life_days"),
)
_OF_SERVICE = (
    *("exploration", "seed", "repeat", "returns", "fold_similar", "min_letters", "min_hits"),
    "cache_size",
)
_SAME = 1e-6  # of two propensities


@dataclass
class Aimed:
    """What a policy would have drawn: rows as in `experiments.off_policy.Logged`."""

    target: list[Floats] = field(default_factory=list)
    expected: list[Floats] = field(default_factory=list)
    unsupported: float = 0.0  #: sum of the probabilities of first entries that the log cannot show


@dataclass
class EvaluationSample:
    """The decisions that can be used, in the order of the log, and how many cannot, by reason.

    `again` counts those for which the policy that ran gives the propensities of the log when it is
    computed again.
    """

    decisions: int
    erased: int
    left_out: Counter[str] = field(default_factory=Counter)
    sessions: list[int] = field(default_factory=list)
    rewards: list[Floats] = field(default_factory=list)
    logged: list[Floats] = field(default_factory=list)
    predicted: list[Floats] = field(default_factory=list)
    policies: Counter[str] = field(default_factory=Counter)
    aimed: dict[str, Aimed] = field(default_factory=dict)
    again: int = 0


def sample(
    store: Store,
    pool: ArmPool,
    names: Sequence[str],
    options: EngineOptions,
    *,
    span: Span,
    progress: Progress,
) -> EvaluationSample:
    """Read the log up to its end as it is now, and ask each policy about each decision."""
    head = store.head()
    newest = store.model(head.model)
    settings: events.ModelSettings = {} if newest is None else newest.settings
    reading = Reading(store, pool, names, of_model(options, settings), span, settings, progress)
    found = reading.run(head.position)
    if reading.learner.catalogue is None:
        check_pool(store, pool)  # a service changed it meanwhile
    return found


def of_model(options: EngineOptions, settings: events.ModelSettings) -> EngineOptions:
    """Return the options that matter here, with the settings of a model in the log.

    >>> options = of_model(EngineOptions(utility="log-det"), {"k": 20, "selection": "max-utility"})
    >>> options.k, options.epsilon, options.selection_name
    (20, 0.5, 'max-utility')
    """
    kept = {name: getattr(options, name) for name in (*_OF_SERVICE, *_OF_MODEL)}
    kept["selection"] = options.selection_name
    kept |= {name: settings[name] for name in _OF_MODEL if name in settings}
    reselect = {"on": True, "off": False}.get(str(settings.get("reselect")))
    personal = options.personal and settings.get("personal") != "off"
    return EngineOptions(**kept, reselect=reselect, personal=personal)


class Reading:
    """One reading of a log; policies begin where the log comes to its pool of now."""

    def __init__(
        self,
        store: Store,
        pool: ArmPool,
        names: Sequence[str],
        options: EngineOptions,
        span: Span,
        settings: events.ModelSettings,
        progress: Progress,
    ) -> None:
        self.store, self.span, self.settings, self.progress = store, span, settings, progress
        self.names, self.options = names, options
        arms = PoolOfLog(pool, **options.minimums)
        self.learner = Learner(store, foreseeing(store, store.head().position), arms=arms)
        self.model_position = 0  # position of the model that came with the pool
        self.catalogue: ServedCatalogue | None = None
        self.loop: Loop
        self.assignment: Assignment
        self.cache: CandidateCache
        self.targets: list[Target] = []
        self.numbers: dict[tuple[str, str], int] = {}

    def run(self, head: int) -> EvaluationSample:
        """Read up to a position."""
        stage = "find the decisions"
        self.progress(stage, None)
        plan = planned(self.store, head, progress=lambda done: self.progress(stage, done))
        self.progress(stage, 1.0)
        found = EvaluationSample(plan.decisions, plan.erased)
        found.aimed = {name: Aimed() for name in self.names}
        replaying = "read the log"
        self.progress(replaying, None)
        while self.learner.position < head:
            for event in self.store.read(
                self.learner.position, min(500, head - self.learner.position)
            ):
                self.learner.apply(event)
                self._follow(event)
                for target in self.targets:
                    target.learn(event, self.learner.state.roll_backs)
                for made in plan.made_at.pop(event.position, ()):
                    self.look(made, found)
            self.progress(replaying, self.learner.position / head)
        return found

    def _follow(self, event: events.Event) -> None:
        """Begin with the pool of now, or learn from the outcome of a slate that was before it."""
        catalogue, state = self.learner.catalogue, self.learner.state
        if isinstance(event.body, events.ModelEvent):
            if catalogue is not None and catalogue is not self.catalogue:
                self._begin(catalogue, event.body, event.position)
        elif isinstance(event.body, events.OutcomeEvent) and event.decision_id is not None:
            decision = self.learner.decision(event.decision_id)
            if decision.position < self.model_position:
                for target in self.targets:
                    target.learn_from_before(event.body, decision, state)

    def _begin(self, catalogue: ServedCatalogue, model: events.ModelEvent, position: int) -> None:
        state, self.catalogue, self.model_position = self.learner.state, catalogue, position
        self.loop = loop_of(catalogue, self.options, state.model_state)
        self.assignment = Assignment(self.loop, self.learner, "")
        self.cache = CandidateCache(self.loop, self.options.cache_size)
        kept = {name: branch.policy for name, branch in state.branches().items()}
        known = experiments.policies_of(model)
        self.targets = [self.target(name) for name in self.names]
        for target in self.targets:
            target.go_on(kept, known)

    def target(self, name: str) -> Target:
        """Return a policy as it begins."""
        stage = f"warm start of {name}"

        def warm(done: int, total: int) -> None:
            self.progress(stage, done / total if total else 1.0)

        return Target(name, self.loop, self.options, warm)

    def look(self, made: Planned, found: EvaluationSample) -> None:
        """Ask the policies about a decision that is made now."""
        decision = self.store.decision(made.id)
        if decision is None:  # it was erased since the log was read first
            found.left_out[ERASED] += 1
            return
        state = self.learner.state
        why, taught = why_not(made, decision, state, self.span), teaches(decision, state)
        if self.learner.catalogue is None:
            found.left_out[why or OTHER_POOL] += 1
            return
        if why is None and not self._same_settings():
            why = SETTINGS
        if why is not None and not taught:
            found.left_out[why] += 1
            return
        asked, at = self._asked(decision), Moment(decision.time)
        ran = self.assignment.loop_of(decision.body.policy)
        by_log = ran.offered(asked, at)
        offers = [target.offered(asked, at, ran, by_log) for target in self.targets]
        if why is None and not found_again(decision, by_log):
            why = NOT_FOUND
        if why is None and len(by_log.ranked) > 1 and chosen(decision)[0].propensity == 1.0:
            why = UNEXPLORED
        if why is None:
            self._use(decision, asked, ran, by_log, offers, found)
        else:
            found.left_out[why] += 1
        for target, offered in zip(self.targets, offers, strict=True):
            if taught:
                rng = self.loop.draws(decision.session_id, decision.body.trial).spawn(1)[0]
                target.follow(made, decision, offered, rng)

    def _same_settings(self) -> bool:
        model = self.learner.state.model_event
        now = {} if model is None else model.settings
        return all(now.get(name) == self.settings.get(name) for name in OF_CANDIDATES)

    def _asked(self, decision: StoredDecision) -> ToRank:
        body, session_state = decision.body, session_state_before(decision)
        place = self.loop.catalogue.place(body.query, body.segment)
        wanted = [CandidateRequest(place, session_state, self.assignment.needs_preferences)]
        selected = self.cache.select(wanted, self.loop.catalogue.version)[0]
        rng = self.loop.draws(session_state.session, session_state.trial + 1)
        return ToRank(place, session_state, selected, body.m, rng, body.at_least)

    def _use(
        self,
        decision: StoredDecision,
        asked: ToRank,
        ran: Loop,
        by_log: Offered,
        offers: Sequence[Offered],
        found: EvaluationSample,
    ) -> None:
        """Add the rows of a decision."""
        entries = chosen(decision)
        arms = [entry.arm for entry in entries]
        propensities = np.array([entry.propensity for entry in entries])
        chances = ran.model_state.probabilities(by_log.candidates, by_log.context)
        chance = dict(zip(by_log.candidates.arms.tolist(), chances.tolist(), strict=True))
        session = (decision.owner, decision.session_id)
        found.sessions.append(self.numbers.setdefault(session, len(self.numbers)))
        found.rewards.append(np.array([float(arm == decision.accepted) for arm in arms]))
        found.logged.append(propensities)
        found.predicted.append(np.array([chance[arm] for arm in arms]))
        found.policies[decision.body.policy] += 1
        found.again += self._again(asked, ran, by_log, arms, propensities)
        shown = set(by_log.ranked.arms.tolist())
        for target, offered in zip(self.targets, offers, strict=True):
            rows = target.drawn(asked, offered, arms)
            candidates = offered.ranked.arms.tolist()
            worth = np.array([chance.get(arm, 0.0) for arm in candidates])
            never = np.array([arm not in shown for arm in candidates], bool)
            at = [candidates.index(arm) if arm in candidates else -1 for arm in arms]
            aimed = found.aimed[target.name]
            aimed.target.append(
                np.array([row[n] if n >= 0 else 0.0 for row, n in zip(rows, at, strict=True)])
            )
            aimed.expected.append(np.array([float(row @ worth) for row in rows]))
            aimed.unsupported += float(rows[0][never].sum())

    def _again(
        self,
        asked: ToRank,
        ran: Loop,
        by_log: Offered,
        arms: Sequence[int],
        propensities: Floats,
    ) -> bool:
        """Whether the policy that ran has the same propensities when it is computed again."""
        rng = self.loop.draws(asked.session_state.session, asked.session_state.trial + 1)
        rows = ran.policy.distributions(
            by_log.ranked, by_log.context, arms, rng, exploration=ran.exploration
        )
        at = [by_log.ranked.arms.tolist().index(arm) for arm in arms]
        ours = np.array([row[n] for row, n in zip(rows, at, strict=True)])
        return bool(np.allclose(ours, propensities, rtol=0, atol=_SAME))


PARTS = ("first entry", "slate")
_FEW, _DIFFERENT = 0.01, 0.01  # shares from which a warning is due


@dataclass(frozen=True)
class Evaluated:
    """The hit rates of a policy: `estimates` by `PARTS` and by estimator; and what to beware of.

    `unsupported` is the share of its first entries that the log could not show: they count as
    without a click. `trusted` is whether its slates and the log's overlap enough for the intervals,
    by part.
    """

    policy: str
    estimates: dict[str, dict[str, Estimate]]
    unsupported: float
    trusted: dict[str, bool]
    warnings: list[str]


@dataclass(frozen=True)
class Evaluation:
    """What a log says of policies; `log` has the hit rates of what really ran.

    `left_out` says how many decisions were not used, by reason, and `again` for which share of the
    used ones the policy that ran gives the same propensities when it is computed again.
    """

    decisions: int
    used: int
    sessions: int
    slates: bool  #: whether one of them had more than one entry
    left_out: dict[str, int]
    erased_events: int
    again: float
    ran: dict[str, int]
    log: dict[str, Estimate]
    policies: list[Evaluated]
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **{name: value for name, value in self.__dict__.items() if name != "policies"},
            "log": _plain(self.log),
            "policies": [
                {
                    **one.__dict__,
                    "estimates": {part: _plain(found) for part, found in one.estimates.items()},
                }
                for one in self.policies
            ],
        }


def evaluate(
    store: Store,
    pool: ArmPool,
    policies: Sequence[str],
    options: EngineOptions | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
    progress: Progress = lambda stage, done: None,
) -> Evaluation:
    """Estimate the hit rates that policies would have had on the decisions of a log.

    Each begins with the warm start from the pool and learns from what the log showed, in the order
    of the log. `options` are those of the service; what the newest model in the log says of them
    wins. Raises `InvalidInput` if the log has no decision that can be used.
    """
    chosen = EngineOptions() if options is None else options
    names = list(dict.fromkeys(policies))
    if not names:
        raise InvalidInput("name a policy to evaluate: --policy NAME.")
    for name in names:
        live_policy(name)
    if since is not None and until is not None and since >= until:
        raise InvalidInput("--since must be before --until.")
    check_pool(store, pool)
    found = sample(store, pool, names, chosen, span=Span(since, until), progress=progress)
    if not found.rewards:
        raise InvalidInput(_nothing(found))
    log = _logged(found, found.logged, found.predicted)
    again = found.again / len(found.rewards)
    return Evaluation(
        decisions=found.decisions,
        used=len(found.rewards),
        sessions=len(set(found.sessions)),
        slates=max(map(len, found.rewards)) > 1,
        left_out=dict(found.left_out.most_common()),
        erased_events=found.erased,
        again=again,
        ran=dict(found.policies.most_common()),
        log={part: cut(ESTIMATORS["ips"](of)) for part, of in _parts(log).items()},
        policies=[evaluated(name, found, aimed) for name, aimed in found.aimed.items()],
        warnings=_other_settings(again),
    )


def evaluated(name: str, found: EvaluationSample, aimed: Aimed) -> Evaluated:
    """Return the estimates of a policy, with what to beware of."""
    log = _logged(found, aimed.target, aimed.expected)
    estimates = {
        part: {estimator: cut(estimate(of)) for estimator, estimate in ESTIMATORS.items()}
        for part, of in _parts(log).items()
    }
    worth = {part: found["ips"].effective for part, found in estimates.items()}
    trusted = {part: effective >= ENOUGH for part, effective in worth.items()}
    warnings = []
    for part in (part for part in PARTS if not trusted[part]):
        warnings.append(
            f"do not trust its intervals for the {part}: it recommends what the log seldom showed, "
            f"so {len(log):,} slates are worth {worth[part]:,.0f}, and {ENOUGH:.0f} are needed. "
            "Serve with more exploration, wait for a longer log, or split the traffic."
        )
        break  # a slate is no better than its first entry
    unsupported = aimed.unsupported / len(log)
    if unsupported > _FEW:
        warnings.append(
            f"{unsupported:.1%} of its first entries were no candidates of the policy that ran. "
            "They count as without a click, so its hit rate may be higher."
        )
    return Evaluated(name, estimates, unsupported, trusted, warnings)


def cut(estimate: Estimate) -> Estimate:
    """Cut an interval at 0 and 1: no hit rate lies beyond.

    >>> cut(Estimate(0.1, -0.2, 0.4, 50.0)).low
    0.0
    """
    return estimate._replace(low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def _parts(log: Logged) -> dict[str, Logged]:
    return dict(zip(PARTS, (log.first(), log), strict=True))


def _logged(
    found: EvaluationSample, target: Sequence[Floats], expected: Sequence[Floats]
) -> Logged:
    rewards, predicted = _table(found.rewards), _table(found.predicted)
    scale = scales(rewards, predicted)
    return Logged.of(
        rewards,
        _table(found.logged),
        _table(target),
        predicted=predicted * scale,
        expected=_table(expected) * scale,
        sessions=found.sessions,
    )


def scales(rewards: Floats, predicted: Floats) -> Floats:
    """Return by what to multiply predictions: clicks per predicted click in the slates before.

    A prediction is the chance that a query comes next, and not every next query is clicked. What
    a slate itself got plays no part, or the estimate would be biased.

    >>> scales(np.array([[0.0], [1.0], [0.0]]), np.array([[1.0], [1.0], [1.0]])).round(2).tolist()
    [[1.0], [0.5], [0.67]]
    """

    def before(values: Floats) -> Floats:
        total = np.cumsum(np.nan_to_num(values), axis=0)
        return np.concatenate([np.zeros((1, values.shape[1])), total[:-1]])

    found: Floats = (before(rewards) + 1.0) / (before(predicted) + 1.0)
    return found


def _table(rows: Sequence[Floats]) -> Floats:
    """Return rows of different lengths as one table, filled with NaN."""
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def _other_settings(again: float) -> list[str]:
    if again >= 1 - _DIFFERENT:
        return []
    return [
        f"computed again, the policy that ran gives other propensities for {1 - again:.1%} of the "
        "decisions. If the service has other settings than this command (exploration, repeat, "
        "returns, fold_similar), pass them: --config FILE, or --set exploration=0.05. After a "
        "roll-back or nextquery leave-out this is so for what was decided before it: use --since."
    ]


def _nothing(found: EvaluationSample) -> str:
    reasons = "; ".join(f"{count:,} {why}" for why, count in found.left_out.most_common())
    why = (
        f"no decision of the log can be used: of {found.decisions:,}, {reasons or 'none'}. An "
        "estimate needs answered slates of a policy with known propensities."
    )
    if not found.left_out[OTHER_POOL]:
        return why
    return (
        f"{why} The candidates of an earlier pool cannot be selected again. Let the service answer "
        "with the pool of now for a while, or estimate from an export: nextquery export --format "
        "obp."
    )


def _plain(estimates: dict[str, Estimate]) -> dict[str, dict[str, float]]:
    return {name: estimate._asdict() for name, estimate in estimates.items()}
