"""A store made ready: it belongs to this pool, and its log says which model decides."""

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.service.catalogue import fingerprint
from nextquery.service.clock import Clock
from nextquery.service.items import NewModel
from nextquery.service.options import EngineOptions
from nextquery.service.store import Store
from nextquery.service.warm import Progress, warm_start
from nextquery.service.writer import Writer


def prepare(
    pool: ArmPool,
    store: Store,
    options: EngineOptions,
    *,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> bool:
    """Write the model event if the settings ask for another model than the log's last.

    The warm start is computed here, once, and read from the log by everybody else. Call it before
    several workers start, or each of them computes it and only one is used. Returns whether a
    model was written.
    """
    mark = fingerprint(pool)
    while True:
        head = store.head()
        last = store.model(head)
        if last is not None:
            _check(last.body["pool"], mark, store)
            if last.body["settings"] == options.of_the_model():
                return False
        body = {**warm_start(pool, options, progress), "pool": mark}
        writer = Writer(store, Clock() if clock is None else clock, written=lambda: None)
        try:
            item = NewModel(body, head.model, pool.rows_in_all)
            if writer.submit(item).result() is not None:
                return True
        finally:
            writer.close()


def _check(theirs: str, ours: str, store: Store) -> None:
    if theirs != ours:
        raise InvalidInput(
            f"{store.name} was begun with another pool: its arm ids mean other queries. Serve the "
            "pool it was begun with, or give a new store."
        )
