"""The log's clock: a wrong date leaves it again, order and time-outs stay right."""

import pytest

from nextquery.service.log.store import AHEAD_S, Clock, Store
from nextquery.service.maintain.repair import difference
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, ManualClock, caught_up, kinds, until

NOW, YEAR_2100 = 1_800_000_000.0, 4_102_444_800.0


@pytest.mark.parametrize("ahead", [0.0, 10.0, AHEAD_S - 1])
def test_a_log_that_is_a_little_ahead_is_followed(ahead: float) -> None:
    clock = ManualClock(NOW)
    assert clock.at_least(NOW + ahead) == NOW + ahead
    assert clock.now() == NOW + ahead


def test_a_log_in_the_year_2100_comes_back(sqlite: Store, start: Start) -> None:
    wrong = start(sqlite, clock=ManualClock(YEAR_2100))
    early = wrong.recommend(session_id="s", query=TEXTS[0])
    wrong.delivered(early.decision_id)
    assert until(lambda: next(sqlite.decisions()).delivered)
    wrong.close()
    assert sqlite.head().clock == YEAR_2100

    clock = ManualClock(NOW)
    engine = start(sqlite, clock=clock, timeout_s=0.4)
    engine.recommend(session_id="t", query=TEXTS[1])
    assert sqlite.head().clock == NOW

    def both_closed() -> bool:
        clock.moment += 0.1
        return len(kinds(sqlite)) == 5

    assert until(both_closed)  # the slate of 2100 and the one of today
    assert {stored.id: stored.state for stored in sqlite.decisions()}[early.decision_id] == "failed"
    events = sqlite.read(0)
    assert [event.position for event in events] == [1, 2, 3, 4, 5]
    assert events[2].time == NOW
    assert all(NOW + 0.4 <= event.time < NOW + AHEAD_S for event in events[3:])
    assert difference(caught_up(engine).learner.state, rebuilt(sqlite)) <= 1e-9


def test_a_process_that_started_with_a_wrong_date_comes_back() -> None:
    wall = [YEAR_2100]
    clock = Clock(wall=lambda: wall[0], monotonic=lambda: 5.0)
    assert clock.at_least(NOW) == YEAR_2100
    wall[0] = NOW  # the machine asked a time server
    assert clock.at_least(YEAR_2100) == NOW
    assert clock.now() == NOW


def test_a_machine_that_lost_its_date_follows_the_log() -> None:
    assert ManualClock(10.0).at_least(NOW) == NOW
