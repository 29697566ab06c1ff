"""Retention by age: what is older goes by itself, and arms keep the people whom they need."""

import pytest

from nextquery.service.erasure.erase import DAY, Tidy, erase_older, unfinished_since
from nextquery.service.erasure.rights import DataSubject
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference
from nextquery.service.model import background
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.erasure.people import SECRET, SHARED, ask, found_in, hashes_of
from tests.service.erasure.test_interrupted import Killed, writes_until
from tests.service.worlds import TEXTS, ManualClock, caught_up, close_open, until


def test_what_is_older_is_erased(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nextquery.service.erasure.erase.AT_ONCE", 2)
    clock = ManualClock(1000.5 * DAY)
    engine = start(store, clock=clock, retention_days=10.0)
    for user in ("ann", "bob"):
        ask(engine, user, f"s-{user}", SHARED)
    ask(engine, "ann", "s-ann-2", SECRET, trusted=True)
    ask(engine, "dora", "s-dora", TEXTS[3])
    caught_up(engine)
    close_open(engine)
    clock.moment += 8 * DAY
    ask(engine, "bob", "s-bob-2", TEXTS[0])
    assert engine.background.tidy.once(clock.moment) == 0
    clock.moment += 5 * DAY
    tidy = engine.background.tidy
    assert tidy.once(clock.moment) == 4
    assert tidy.once(clock.moment) == 0
    assert [one.session_id for one in store.decisions()] == ["s-bob-2"]
    known = hashes_of(engine, "ann")
    # An arm keeps the hashed users that it needs, and nothing else of them is left.
    assert found_in(store, *known, *hashes_of(engine, "dora"), SECRET, "s-ann") == {known[0]}
    caught_up(engine)
    engine.learner.refresh()
    with engine.learner.lock:
        state = engine.learner.state.copy()
    assert difference(rebuilt(store, until=state.position), state) == 0.0
    assert engine.catalogue.find_exactly(SHARED) is not None
    assert engine.forget(DataSubject(user_id="ann"))[0].log.arms == 1
    assert found_in(store, *known, SHARED) == set()


def test_killed_half_way_it_forgets_who_typed_the_rest_later(sqlite: Store, start: Start) -> None:
    clock = ManualClock(1000 * DAY)
    engine = start(sqlite, clock=clock)
    ask(engine, "ann", "s-ann", SECRET)
    with pytest.raises(Killed):  # after the decisions, before who typed them
        erase_older(sqlite, clock.moment + DAY, writes_until(engine, 1))
    assert next(sqlite.decisions(), None) is None
    user = hashes_of(engine, "ann")[0]
    assert found_in(sqlite, user) == {user}
    clock.moment += 40 * DAY
    tidy = Tidy(sqlite, writes_until(engine, 100), 30.0, lambda: False)
    tidy.once(clock.moment)
    assert found_in(sqlite, user) == set()
    for user in ("bob", "carol"):  # whom an arm needs
        ask(engine, user, f"s-{user}", SHARED)
    caught_up(engine)
    close_open(engine)
    heads = []
    for _ in range(2):
        erase_older(sqlite, clock.moment + DAY, writes_until(engine, 100))
        heads.append(sqlite.head().position)
    assert heads[0] == heads[1]  # nothing was left to forget
    assert unfinished_since(sqlite) is None
    assert found_in(sqlite, *hashes_of(engine, "bob")[:1])


def test_it_runs_by_itself(sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1000 * DAY)
    engine = start(sqlite, clock=clock)
    ask(engine, "ann", "s-ann", SECRET)
    engine.close()
    clock.moment += 40 * DAY
    monkeypatch.setattr(background, "_FIRST_TIDY_S", 0.01)
    start(sqlite, clock=clock, retention_days=30.0)
    assert until(lambda: next(sqlite.decisions(), None) is None)
    assert until(lambda: found_in(sqlite, SECRET, *hashes_of(engine, "ann")) == set())


def test_without_the_setting_nothing_is_erased(sqlite: Store, start: Start) -> None:
    clock = ManualClock(1000 * DAY)
    engine = start(sqlite, clock=clock)
    ask(engine, "ann", "s-ann", SECRET)
    assert engine.background.tidy.once(clock.moment + 9000 * DAY) == 0
    assert next(sqlite.decisions()).session_id == "s-ann"
