"""Forgetting a person: everything that the log knows of them, in a few short transactions.

Killed at any point, the same call finishes it: what is not erased yet can still be found, and only
the last transaction says that anything was.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import sqlalchemy as sa

from nextquery.service.log.erasure.erase import EraseDecisions, Gone
from nextquery.service.log.erasure.fallen import take_out
from nextquery.service.log.erasure.finish import EndArms, EndErasure, ForgetTraces
from nextquery.service.log.erasure.recount import Count, Marked, marked, search
from nextquery.service.log.erasure.spellings import Leaving
from nextquery.service.log.erasure.who import Who, found
from nextquery.service.log.events import By
from nextquery.service.log.schema import counter
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Write

AT_ONCE = 500  # decisions erased in one transaction
Progress = Callable[[str, float | None], None]
Result = TypeVar("Result")


class Submit(Protocol):
    """Writes one change in a transaction, and returns what it returns."""

    def __call__(self, write: Write[Result], /) -> Result:
        """Write it."""


class Forgot(NamedTuple):
    """What was erased: decisions, all events, other rows that named somebody, and arms that ended.

    `position` is that of the event at the end of it; 0 if nothing was found.
    """

    decisions: int = 0
    events: int = 0
    rows: int = 0
    arms: int = 0
    position: int = 0

    @property
    def anything(self) -> bool:
        """Whether anything was erased."""
        return self.position > 0


class OfPool(NamedTuple):
    """What leaves the pool with somebody: arms, their texts; `write` takes them out of its files.

    It is called when the log has these texts no more.
    """

    arms: tuple[int, ...] = ()
    texts: frozenset[str] = frozenset()
    write: Callable[[], None] = lambda: None


NOTHING_OF_POOL = OfPool()


def forget(
    store: Store,
    who: Who,
    submit: Submit,
    *,
    of_pool: OfPool = NOTHING_OF_POOL,
    by: By | None = None,
    progress: Progress | None = None,
) -> Forgot:
    """Erase what the log knows of somebody up to now; requests go on being answered meanwhile.

    Arms of the pool that end with them are shown by no worker any more.
    """
    tell: Progress = progress or (lambda stage, done: None)
    tell("find", None)
    until = store.head().position
    with store.reading() as connection:
        known = found(connection, who, until)
    tell("find", 1.0)
    gone = erase_all(known.decisions, submit, lambda done: tell("erase decisions", done))
    rows = submit(ForgetTraces(who, tuple(known.sessions)))
    fallen = _end_arms(store, submit, who.why, by, tell, of_pool)
    of_pool.write()
    due = gone.events + rows + len(of_pool.arms) > 0
    position = submit(EndErasure(who.why, fallen, by, due=due))
    return Forgot(*gone, rows, len(fallen.arms), position)


def _end_arms(
    store: Store,
    submit: Submit,
    why: str,
    by: By | None,
    tell: Progress,
    of_pool: OfPool = NOTHING_OF_POOL,
) -> Marked:
    """End the arms that too few people are left of, and take their texts out of all decisions."""
    with store.reading() as connection:
        few = marked(connection)
    if not few.texts and not of_pool.texts:
        return few
    searching, taking = "search who typed the same", "take out texts"
    of_pool_alone = Leaving.of(of_pool.texts, of_pool.arms)
    known = search(store, few, lambda done: tell(searching, done), leaving=of_pool_alone)
    tell(searching, 1.0)
    for start in range(0, len(known.people), AT_ONCE):
        submit(Count(known.people[start : start + AT_ONCE]))
    few = submit(EndArms(why, by, of_pool.arms, of_pool.texts))
    leaving = Leaving.of({*few.texts.values(), *of_pool.texts}, {*few.by_arm, *of_pool.arms})
    if leaving.texts:
        found = {at for text in few.texts.values() for at in known.having.get(text, ())}
        found.update(known.leaving)
        after = known.until
        take_out(store, leaving, found, submit, lambda done: tell(taking, done), after=after)
        tell(taking, 1.0)
    return few


def erase_all(ids: list[str], submit: Submit, tell: Callable[[float], None]) -> Gone:
    """Erase decisions, some hundreds at a time, so that others are not held up for long."""
    gone = Gone()
    for start in range(0, len(ids), AT_ONCE):
        now = submit(EraseDecisions(ids[start : start + AT_ONCE]))
        gone = Gone(gone.decisions + now.decisions, gone.events + now.events)
        tell(min(1.0, (start + AT_ONCE) / len(ids)))
    return gone


def finish(store: Store, submit: Submit, *, why: str = "age") -> int:
    """Finish an erasure that was interrupted, as far as it went; return the position, or 0.

    Whoever was being forgotten may still have decisions: only the same command can find them.
    """
    fallen = _end_arms(store, submit, why, None, lambda stage, done: None)
    return submit(EndErasure(why, fallen))


def unfinished_since(store: Store) -> float | None:
    """Return when an erasure that has not ended last went on; None if there is none."""
    with store.reading() as connection:
        found: Any = connection.execute(sa.select(counter.c.erasing)).scalar_one()
    return None if found is None else float(found)
