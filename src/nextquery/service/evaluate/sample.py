"""Read a log in order, and ask policies that did not run about each decision when it was made."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nextquery.arms import ArmPool
from nextquery.loop import Loop, Offered, ToRank
from nextquery.memory import Moment
from nextquery.policies.policy import Floats
from nextquery.service.engine.experiments import Assignment
from nextquery.service.engine.slates import Asked, CandidateCache, visit_before
from nextquery.service.evaluate.decisions import (
    ERASED,
    NOT_FOUND,
    OTHER_POOL,
    SETTINGS,
    UNEXPLORED,
    Span,
    chosen,
    found_again,
    teaches,
    why_not,
)
from nextquery.service.evaluate.plan import Planned, planned
from nextquery.service.evaluate.target import Target
from nextquery.service.log.events import Event, ModelEvent, ModelSettings, OutcomeEvent
from nextquery.service.log.store import Store, StoredDecision
from nextquery.service.model.catalogue import Arms, ServedCatalogue
from nextquery.service.model.experiments import policies_of
from nextquery.service.model.learner import Learner, foreseeing
from nextquery.service.model.prepare import check_pool, loop_of
from nextquery.service.settings import EngineOptions

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
class Sample:
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
) -> Sample:
    """Read the log up to its end as it is now, and ask each policy about each decision."""
    head = store.head()
    newest = store.model(head.model)
    settings: ModelSettings = {} if newest is None else newest.settings
    reading = Reading(store, pool, names, of_model(options, settings), span, settings, progress)
    found = reading.run(head.position)
    if reading.learner.catalogue is None:
        check_pool(store, pool)  # a service changed it meanwhile
    return found


def of_model(options: EngineOptions, settings: ModelSettings) -> EngineOptions:
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
        settings: ModelSettings,
        progress: Progress,
    ) -> None:
        self.store, self.span, self.settings, self.progress = store, span, settings, progress
        self.names, self.options = names, options
        arms = Arms(pool, **options.minimums)
        self.learner = Learner(store, foreseeing(store, store.head().position), arms=arms)
        self.begun = 0  # position of the model that came with the pool
        self.catalogue: ServedCatalogue | None = None
        self.loop: Loop
        self.assignment: Assignment
        self.cache: CandidateCache
        self.targets: list[Target] = []
        self.numbers: dict[tuple[str, str], int] = {}

    def run(self, head: int) -> Sample:
        """Read up to a position."""
        stage = "find the decisions"
        self.progress(stage, None)
        plan = planned(self.store, head, told=lambda done: self.progress(stage, done))
        self.progress(stage, 1.0)
        found = Sample(plan.decisions, plan.erased)
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

    def _follow(self, event: Event) -> None:
        """Begin with the pool of now, or learn from the outcome of a slate that was before it."""
        catalogue, state = self.learner.catalogue, self.learner.state
        if isinstance(event.body, ModelEvent):
            if catalogue is not None and catalogue is not self.catalogue:
                self._begin(catalogue, event.body, event.position)
        elif isinstance(event.body, OutcomeEvent) and event.decision_id is not None:
            decision = self.learner.decision(event.decision_id)
            if decision.position < self.begun:
                for target in self.targets:
                    target.learn_from_before(event.body, decision, state)

    def _begin(self, catalogue: ServedCatalogue, model: ModelEvent, position: int) -> None:
        state, self.catalogue, self.begun = self.learner.state, catalogue, position
        self.loop = loop_of(catalogue, self.options, state.learnt)
        self.assignment = Assignment(self.loop, self.learner, "")
        self.cache = CandidateCache(self.loop, self.options.cache_size)
        kept = {name: branch.policy for name, branch in state.branches().items()}
        known = policies_of(model)
        self.targets = [self.target(name) for name in self.names]
        for target in self.targets:
            target.go_on(kept, known)

    def target(self, name: str) -> Target:
        """Return a policy as it begins."""
        stage = f"warm start of {name}"

        def warm(done: int, total: int) -> None:
            self.progress(stage, done / total if total else 1.0)

        return Target(name, self.loop, self.options, warm)

    def look(self, made: Planned, found: Sample) -> None:
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
        body, visit = decision.body, visit_before(decision)
        place = self.loop.catalogue.place(body.query, body.segment)
        wanted = [Asked(place, visit, self.assignment.needs_preferences)]
        selected = self.cache.select(wanted, self.loop.catalogue.version)[0]
        rng = self.loop.draws(visit.session, visit.trial + 1)
        return ToRank(place, visit, selected, body.m, rng, body.at_least)

    def _use(
        self,
        decision: StoredDecision,
        asked: ToRank,
        ran: Loop,
        by_log: Offered,
        offers: Sequence[Offered],
        found: Sample,
    ) -> None:
        """Add the rows of a decision."""
        entries = chosen(decision)
        arms = [entry.arm for entry in entries]
        propensities = np.array([entry.propensity for entry in entries])
        chances = ran.learnt.probabilities(by_log.candidates, by_log.context)
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
        rng = self.loop.draws(asked.visit.session, asked.visit.trial + 1)
        rows = ran.policy.distributions(
            by_log.ranked, by_log.context, arms, rng, exploration=ran.exploration
        )
        at = [by_log.ranked.arms.tolist().index(arm) for arm in arms]
        ours = np.array([row[n] for row, n in zip(rows, at, strict=True)])
        return bool(np.allclose(ours, propensities, rtol=0, atol=_SAME))
