"""Batches, caches and propensities: a batch gives the same slates as single requests."""

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from nextquery.loop import SessionState
from nextquery.memory import FEATURES
from nextquery.service.engine.requests import Decision, RecommendRequest
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import Store
from tests.service.conftest import Start
from tests.service.worlds import DAY, TEXTS, ManualClock, caught_up


def test_batched_answers_are_those_of_one_at_a_time(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, exploration=0.3)
    queries = [*TEXTS[:30], "bread guide for kids", "nothing known", *TEXTS[:5]]
    jobs = [RecommendRequest(f"s{n}", query) for n, query in enumerate(queries)]

    def bodies(batches: list[list[RecommendRequest]]) -> list[DecisionEvent]:
        found = []
        for batch in batches:
            anchors = [engine.catalogue.place(job.query) for job in batch]
            visits = [SessionState(session=job.session_id) for job in batch]
            selected = engine.answerer.select(anchors, visits)
            for job, anchor, visit, chosen in zip(batch, anchors, visits, selected, strict=True):
                found.append(engine.answerer.slate(job, anchor, chosen, visit))
        return found

    together = bodies([jobs])
    engine.answerer.cache.clear()
    assert bodies([[job] for job in jobs]) == together
    assert engine.answerer.cache.hits > 0
    assert together[0].slate
    assert together[31].slate == ()  # no vector and no memory, so no candidates


def test_a_map_shows_what_is_left_after_a_half_life(sqlite: Store, start: Start) -> None:
    """Its features are those of a slate at the same moment: of two queries one counts, later."""
    clock = ManualClock(100 * DAY)
    engine = start(sqlite, clock=clock, half_life_days=30.0, warm_sessions=1, memory_sessions=1)

    def support() -> tuple[float, float]:
        data = engine.submit_map(session_id="map", query=TEXTS[0]).result().considered
        slate = engine.recommend(session_id="new", query=TEXTS[0], m=50)
        entry = next(entry for entry in slate.recommendations if entry.arm == 1)
        assert data.candidates.features is not None
        row = data.candidates.features[data.candidates.arms == 1]
        at = FEATURES.index("log support")
        return float(row[0, at]), entry.features[at]

    before = support()
    for session in ("one", "two"):
        engine.recommend(session_id=session, query=TEXTS[1])
    caught_up(engine)
    asked = support()
    clock.moment += 30 * DAY
    later = support()
    assert before[0] == before[1] == 0.0
    assert asked == pytest.approx((np.log(3), np.log(3)))
    assert later == pytest.approx((np.log(2), np.log(2)))


def test_concurrent_requests_share_a_scan(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    sizes: list[int] = []
    selector = engine.answerer.loop.selector
    scan = selector.select_many

    def counted(pool: Any, matrix: Any, *rest: Any, **more: Any) -> Any:
        sizes.append(len(matrix))
        return scan(pool, matrix, *rest, **more)

    monkeypatch.setattr(selector, "select_many", counted)
    with engine.answerer.lock:  # blocks the handler, so that the requests queue up
        futures: list[Future[Decision]] = [
            engine.submit_recommend(session_id=f"s{n}", query=TEXTS[n]) for n in range(20)
        ]
    for future in futures:
        future.result()
    assert sum(sizes) == 20
    assert len(sizes) <= 3
    engine.recommend(session_id="x", query=TEXTS[3])
    assert sum(sizes) == 20  # already in the cache


def test_memory_is_bounded(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, cache_size=7)
    for number in range(40):
        engine.recommend(session_id=f"s{number}", query=TEXTS[number])
    assert len(engine.answerer.cache) == 7
    engine.learner._remembered = 3
    engine.recommend(session_id="x", query=TEXTS[0])
    engine.learner.catch_up()
    assert len(engine.learner._decided) == 3


def test_a_slate_says_how_probable_it_was(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, exploration=0.5)
    shown = engine.recommend(session_id="s", query=TEXTS[0], m=5).recommendations
    stored = next(iter(sqlite.decisions()))
    for entry, one in zip(stored.body.slate, shown, strict=True):
        assert 0 < one.propensity < 1
        assert entry.propensity == one.propensity
        assert one.uncertainty is not None
        assert one.text == TEXTS[one.arm].title()
        assert len(entry.features) == len(FEATURES)


def test_a_session_is_not_shown_the_same_again_unless_asked(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, repeat=False)
    first, second = (engine.recommend(session_id="s", query=TEXTS[0]) for _ in range(2))
    arms = [{one.arm for one in decision.recommendations} for decision in (first, second)]
    assert not arms[0] & arms[1]
    engine.close()
    again = start(sqlite)
    slates = [again.recommend(session_id="t", query=TEXTS[0]) for _ in range(2)]
    assert slates[0].recommendations == slates[1].recommendations
    later = again.recommend(session_id="t", query=TEXTS[1], m=20)
    assert 0 not in [one.arm for one in later.recommendations]  # already queried in this session


def test_a_decision_is_remembered(start: Start, sqlite: Store) -> None:
    engine = start(sqlite)
    memory = engine.answerer.loop.memory
    before = memory.support(np.arange(60))
    engine.recommend(session_id="s", query=TEXTS[0])
    engine.recommend(session_id="s", query=TEXTS[50])
    engine.learner.catch_up()
    after = memory.support(np.arange(60))
    assert (after - before).nonzero()[0].tolist() == [0, 50]
    recalled = memory.recall([0])
    assert recalled.follows[recalled.arms == 50].tolist() == [1.0]
    assert recalled.follows.sum() > 1.0
