"""Batches, caches and propensities: many at once answer as one alone."""

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from nextquery.memory import SessionMemory
from nextquery.service.answering import Visit
from nextquery.service.answers import Decision
from nextquery.service.candidates import Recollection
from nextquery.service.live_memory import LiveMemory
from nextquery.service.requests import Asked
from nextquery.service.store import Store
from nextquery.sessions import Sessions
from tests.service.conftest import Start
from tests.service.worlds import TEXTS


def test_batched_answers_are_those_of_one_at_a_time(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, exploration=0.3)
    queries = [*TEXTS[:30], "bread guide for kids", "nothing known", *TEXTS[:5]]
    jobs = [Asked("recommend", Future(), f"s{n}", query, 5) for n, query in enumerate(queries)]

    def bodies(batches: list[list[Asked]]) -> list[dict[str, Any]]:
        found = []
        for batch in batches:
            anchors = [engine.catalogue.anchor(job.query) for job in batch]
            for job, anchor, chosen in zip(
                batch, anchors, engine.answerer.select(anchors), strict=True
            ):
                body = engine.answerer.slate(job, anchor, chosen, Visit.after(None))
                for entry in body["slate"]:  # sums over the pool are exact to 1e-5 only
                    entry["preference"] = pytest.approx(entry["preference"], rel=1e-5)
                found.append(body)
        return found

    together = bodies([jobs])
    engine.answerer.cache.clear()
    assert bodies([[job] for job in jobs]) == together
    assert engine.answerer.hits > 0
    assert together[0]["slate"]
    assert together[31]["slate"] == []  # no vector, no memory: nothing to go by


def test_concurrent_requests_share_a_scan(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    sizes: list[int] = []
    scan = engine.answerer.selector.select_many

    def counted(pool: Any, matrix: Any, *rest: Any) -> Any:
        sizes.append(len(matrix))
        return scan(pool, matrix, *rest)

    monkeypatch.setattr(engine.answerer.selector, "select_many", counted)
    with engine.answerer.lock:  # the desk waits here, so that the others gather
        futures: list[Future[Decision]] = [
            engine.submit_recommend(session_id=f"s{n}", query=TEXTS[n]) for n in range(20)
        ]
    for future in futures:
        future.result()
    assert sum(sizes) == 20
    assert len(sizes) <= 3
    engine.recommend(session_id="x", query=TEXTS[3])
    assert sum(sizes) == 20  # at hand already


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
    for entry, one in zip(stored.body["slate"], shown, strict=True):
        assert 0 < one.propensity < 1
        assert entry["propensity"] == one.propensity
        assert one.uncertainty is not None
        assert one.text == TEXTS[one.arm_id].title()
        assert len(entry["features"]) == 8


def test_a_session_is_not_shown_the_same_again_unless_asked(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    first, second = (engine.recommend(session_id="s", query=TEXTS[0]) for _ in range(2))
    arms = [{one.arm_id for one in decision.recommendations} for decision in (first, second)]
    assert not arms[0] & arms[1]
    engine.close()
    again = start(sqlite, repeat=True)
    slates = [again.recommend(session_id="t", query=TEXTS[0]) for _ in range(2)]
    assert slates[0].recommendations == slates[1].recommendations
    later = again.recommend(session_id="t", query=TEXTS[1], m=20)
    assert 0 not in [one.arm_id for one in later.recommendations]  # asked in this session


def test_live_memory_counts_as_the_past_does(rng: np.random.Generator) -> None:
    """The same sessions, lived through or read from the pool, are remembered the same."""
    sessions = [rng.permutation(12)[: int(rng.integers(1, 9))].tolist() for _ in range(40)]
    live = LiveMemory()
    for session in sessions:
        for at, arm in enumerate(session):
            live.add(arm, session[:at])
    row = np.concatenate([np.array(s) for s in sessions])
    offsets = np.cumsum([0, *map(len, sessions)])
    past = SessionMemory(Sessions(row, offsets, np.arange(40.0)), arms=12)
    assert np.array_equal(live.support(np.arange(12)), past.support(np.arange(12), len(row)))
    for history in ([3], [1, 2], [4, 5, 6]):
        recalled = live.recall(history, most=10_000, earlier=10_000)
        assert dict(recalled.followers) == dict(past.followers(history, len(row)))
        assert dict(recalled.longer) == dict(past.followers(history, len(row), memory=2))
        together = past.together(history, len(row))
        assert recalled.near.keys() == together.keys()
        assert all(recalled.near[arm] == pytest.approx(together[arm]) for arm in together)


def test_live_memory_forgets_its_oldest_rows() -> None:
    small, whole = LiveMemory(rows=5), LiveMemory()
    for arm in range(20):
        small.add(arm, [arm - 1] if arm else [])
        whole.add(arm, [arm - 1] if arm else [])
    assert small.recall([3], most=9, earlier=9).near == {}
    assert small.recall([17], most=9, earlier=9) == whole.recall([17], most=9, earlier=9)
    again = LiveMemory.from_state(small.state())
    again.add(3, [17])
    small.add(3, [17])
    assert again.recall([17], most=9, earlier=9) == small.recall([17], most=9, earlier=9)
    assert len(small._arms) <= 64


def test_past_and_live_are_one_memory(start: Start, sqlite: Store) -> None:
    engine = start(sqlite)
    recollection: Recollection = engine.answerer.recollection
    before = recollection.support(np.arange(60), None)
    engine.recommend(session_id="s", query=TEXTS[0])
    engine.recommend(session_id="s", query=TEXTS[50])
    engine.learner.catch_up()
    after = recollection.support(np.arange(60), None)
    assert (after - before).nonzero()[0].tolist() == [0, 50]
    recalled = recollection.recall([0], running=True, before=None)
    assert recalled.followers[50] == 1.0
    assert sum(recalled.followers.values()) > 1.0
    assert recollection.recall([0], running=False, before=None).followers == {}
