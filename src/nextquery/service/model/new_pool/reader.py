"""The reader of a log at its end, with the arms of the pool that the log is at."""

from collections.abc import Callable

from nextquery.arms import ArmPool
from nextquery.service.log.store import Store
from nextquery.service.model.learner import Learner
from nextquery.service.model.new_pool.change import not_its_pool
from nextquery.service.model.served_catalogue import Arms, ServedCatalogue
from nextquery.service.model.snapshots import newest_state
from nextquery.service.settings.engine_options import EngineOptions

_TRIES = 3  # how often a pool may be updated while it is opened


def open_again(pool: ArmPool) -> Callable[[], ArmPool] | None:
    """Return what opens the folder of a pool as it is by then; None if the pool has no folder."""
    folder = pool.folder
    if folder is None or type(pool) is not ArmPool:
        return None
    path = folder.path
    return lambda: ArmPool.open(path)


def reader_of(
    pool: ArmPool, store: Store, options: EngineOptions, opener: Callable[[], ArmPool] | None
) -> tuple[ArmPool, Learner, ServedCatalogue]:
    """Read a log to its end; if its pool is newer than `pool` by now, open it again."""
    for _ in range(_TRIES):
        learner = Learner(store, newest_state(store), arms=Arms(pool, **options.minimums))
        learner.catch_up()
        learner.refresh()
        if learner.catalogue is not None:
            return pool, learner, learner.catalogue
        if opener is None:
            break
        pool = opener()
    raise not_its_pool(store.name)
