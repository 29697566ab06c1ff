"""A lease has one holder at a time, and ends with it or after its time."""

from nextquery.service.log.operators import EndLease, TakeLease
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from tests.service.worlds import ManualClock


def test_one_holder_at_a_time(store: Store) -> None:
    clock = ManualClock()
    writer = Writer(store, clock, written=lambda: None)

    def take(holder: str) -> bool:
        return writer.submit(TakeLease("work", holder, 60.0)).result()

    assert [take("a"), take("b"), take("a")] == [True, False, True]
    clock.moment += 59
    assert not take("b")
    assert take("a")  # which makes it longer
    clock.moment += 59
    assert not take("b")
    clock.moment += 2
    assert [take("b"), take("a")] == [True, False]
    writer.submit(EndLease("work", "a")).result()  # it is not a's any more
    assert not take("a")
    writer.submit(EndLease("work", "b")).result()
    assert take("a")
    writer.close()
