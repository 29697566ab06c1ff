"""The warm-up answers once and leaves no trace."""

from nextquery.service.log.store import Store
from nextquery.service.server import warm_up
from tests.service.conftest import Start


def test_it_records_nothing_and_selects_once(store: Store, start: Start) -> None:
    engine = start(store)
    before, selections = store.head(), engine.answerer.cache
    assert selections.misses == 0
    warm_up(engine)
    assert selections.misses == 1
    assert store.head() == before
    assert store.newest(5) == []
