"""A person's rights in a running service: to get their data, and to have it erased."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.pool import continued
from nextquery.arms.remap import IdMap
from nextquery.service.erasure.erase import ErasedFromLog, OfPool, Progress, Submit, forget
from nextquery.service.erasure.person import Known, known_of, named
from nextquery.service.erasure.pool import (
    NOT_IN_POOL,
    ErasedFromPool,
    InPool,
    PoolErasure,
    can_search,
    leaving,
    sessions_of,
    user_in,
)
from nextquery.service.log.events import By
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.background import Background
from nextquery.service.model.learner import Learner
from nextquery.service.settings import EngineOptions


class DataSubject(NamedTuple):
    """A user or a session, by its id; of one owner of keys, or of all."""

    user_id: str | None = None
    session_id: str | None = None
    owner: str | None = None


class Erasure(NamedTuple):
    """What was erased from the log and from the pool."""

    log: ErasedFromLog
    pool: ErasedFromPool = NOT_IN_POOL

    @property
    def anything(self) -> bool:
        """Whether anybody was found."""
        return self.log.anything or self.pool.anything


NO_ERASURE = Erasure(ErasedFromLog())


def known(store: Store, pool: ArmPool | None, person: DataSubject, secret: str) -> Known:
    """Return everything that a store and a pool know of somebody, as JSON values."""
    who = named(store, **person._asdict(), user_hash_secret=secret)
    found = known_of(store, who)
    user = _in_pool(pool, person, secret)
    if pool is not None and user is not None:
        found["pool_sessions"] = sessions_of(pool, user)
    return found


def erase(
    store: Store,
    pool: ArmPool | None,
    person: DataSubject,
    secret: str,
    submit: Submit,
    *,
    by: By | None = None,
    progress: Progress | None = None,
) -> Erasure:
    """Erase somebody from a store and from a pool's folder; the files of the store are not cleaned.

    The folder is written last but for the event that ends the erasure. Until then the person can
    be found in it, so an erasure that was interrupted knows which texts leave the store.
    """
    who = named(store, **person._asdict(), user_hash_secret=secret)
    user = _in_pool(pool, person, secret)
    folder = None if pool is None else getattr(pool, "folder", None)
    with contextlib.ExitStack() as held:
        pool_erasure = PoolErasure()
        if user is not None and folder is not None:
            pool_erasure = held.enter_context(leaving(folder.path, user))
        arms = () if pool is None else _ids(store, pool, pool_erasure.erased.arms)
        of_pool = OfPool(arms, pool_erasure.texts, pool_erasure.write)
        done = forget(store, who, submit, of_pool=of_pool, by=by, progress=progress)
    return Erasure(done, pool_erasure.erased)


def _ids(store: Store, pool: ArmPool, rows: Sequence[int]) -> tuple[int, ...]:
    """Return the ids that rows of a pool have in a log; those of an update may have none yet."""
    model = store.model(store.head().model)
    if model is None or not rows:
        return tuple(rows)
    before = continued(pool.origin, model.pool)
    known = pool.rows_in_all if before is None else before.rows
    ids = IdMap.of(model.runs, known).ids(np.array(rows, np.int64))
    return tuple(ids[np.array(rows) < known].tolist())


def _in_pool(pool: ArmPool | None, person: DataSubject, secret: str) -> InPool | None:
    """Return the hashes of somebody in the pool; None if it cannot know them."""
    if pool is None or person.user_id is None:
        return None
    return user_in(pool, person.user_id, secret, person.owner)


class Rights:
    """The part of the engine that people may ask operators to use."""

    pool: ArmPool
    store: Store
    writer: Writer
    learner: Learner
    background: Background
    options: EngineOptions

    def known_of(self, person: DataSubject) -> dict[str, Any]:
        """Return everything that the store and the pool know of a user or a session."""
        return known(self.store, self._searchable, person, self.options.user_hash_secret)

    def forget(self, person: DataSubject, by: By | None = None) -> tuple[Erasure, bool]:
        """Erase a user or a session; return what was erased, and whether the files are clean.

        A large store is not cleaned: that would keep other requests waiting. A pool that was made
        with another secret than the service has is left alone: only the command can name it.
        """
        done = erase(
            self.store,
            self._searchable,
            person,
            self.options.user_hash_secret,
            lambda write: self.writer.submit(write).result(),
            by=by,
        )
        self.learner.catch_up()
        return done, self.background.tidy.clean_if_small()

    @property
    def _searchable(self) -> ArmPool | None:
        return self.pool if can_search(self.pool, self.options.user_hash_secret) else None
