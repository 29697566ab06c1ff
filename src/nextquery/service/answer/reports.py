"""What the engine reports about itself: the statistics, and its health."""

from typing import Literal

from nextquery.arms import ArmPool
from nextquery.checks import one_of
from nextquery.errors import StoreUnavailable
from nextquery.service.answer.example_queries import example_queries
from nextquery.service.answer.experiment.report import Experiment, report
from nextquery.service.answer.request_handler import RequestHandler
from nextquery.service.answer.results import Health, Stats
from nextquery.service.answer.shards import unavailable_shards
from nextquery.service.answer.slates import Answerer
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.background import Background
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.model.learner import Learner
from nextquery.service.model.pool_change import PoolFollower

_SHORT = 12  # characters of a fingerprint that are told


class Reports:
    """The part of the engine that reports numbers; it changes nothing."""

    pool: ArmPool
    store: Store
    writer: Writer
    learner: Learner
    catalogue: ServedCatalogue
    answerer: Answerer
    background: Background
    handler: RequestHandler
    follower: PoolFollower
    _waiting: int

    def stats(self, *, by: Literal["hour", "day"] = "hour") -> Stats:
        """Return acceptance, regret and coverage, by policy and time."""
        one_of(by, "by", ("hour", "day"))
        with self.learner.lock:
            statistics, model = self.learner.state.statistics, self.learner.state.model_event
            return {
                "position": self.learner.position,
                "totals": statistics.totals(),
                "not_teaching": statistics.not_teaching,
                "coverage": statistics.coverage(len(self.catalogue.pool)),
                "floor": None if model is None else model.floor,
                "candidates": statistics.sizes(),
                "by": by,
                "rows": statistics.table(by),
            }

    def examples(self, count: int, segment: str = "") -> list[str]:
        """Return common queries of a segment, without those that are blocked by now."""
        self.handler.read_to_the_barrier()
        folding = self.answerer.loop.folding
        return example_queries(self.catalogue, count, segment, folding)

    def experiment(self) -> Experiment:
        """Return what is known of the policies that share the sessions."""
        self.learner.catch_up()
        with self.learner.lock:
            return report(self.learner.state)

    def health(self) -> Health:
        """Return the state of the engine."""
        try:
            head, ok = self.store.head().position, self.writer.failures == 0
            snapshots = self.store.snapshot_positions()
        except StoreUnavailable:
            head, ok, snapshots = self.learner.position, False, []
        state, cache = self.learner.state, self.answerer.cache
        shards, away = unavailable_shards(self.pool)
        return Health(
            position=self.learner.position,
            lag=max(0, head - self.learner.position),
            store_ok=ok,
            learning=self.background.error is None,
            on=state.on,
            fallen_back=bool(state.fallen),
            rolled_back=bool(state.roll_backs.in_force),
            computing=state.stale,
            policy=self.answerer.policy,
            arms=len(self.catalogue.pool),
            blocked=len(state.blocked),
            held=len(state.held),
            capped=self.handler.new_arms.rules.capped,
            snapshots=snapshots,
            waiting=self._waiting,
            writing=self.writer.waiting,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            shards=shards,
            shards_away=len(away),
            away=away,
            pool=self.catalogue.digest[:_SHORT],
            pool_current=self.answerer.ready.is_set() and not self.follower.problem,
        )
