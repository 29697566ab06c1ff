"""Erase decisions: for one person, or by age, in the log and its tables.

An erased event leaves a tombstone in the log, and nothing remains in the tables. At the end, the
traces of a person outside their decisions are erased, and an event records the erasure.

The erasure of a person takes a few short transactions. If the process is killed at any point, the
same call finishes it. What is not erased yet can still be found, and only the last transaction
records that anything was erased.

Every worker also erases decisions older than the retention period, and finishes interrupted
erasures.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import sqlalchemy as sa

from nextquery.errors import StorageError
from nextquery.service.erasure.files import clean, needs_cleaning
from nextquery.service.erasure.person import Owned, Who, found
from nextquery.service.erasure.texts import (
    NONE_MARKED,
    Count,
    Leaving,
    Marked,
    count_again,
    end,
    marked,
    search,
    take_out,
)
from nextquery.service.log import events, schema
from nextquery.service.log.new_arms import names_of
from nextquery.service.log.store import Store, as_event
from nextquery.service.log.writer import NOTHING, Needs, Transaction, Write

_OF_DECISIONS = [
    kind.kind
    for kind in (
        events.DecisionEvent,
        events.FeedbackEvent,
        events.TimeoutEvent,
        events.UndeliveredEvent,
    )
]


class ErasedCounts(NamedTuple):
    """How many decisions and events were erased."""

    decisions: int = 0
    events: int = 0


@dataclass(frozen=True)
class EraseDecisions:
    """Put tombstones in the place of some decisions and of all that followed from them.

    Their sessions are forgotten too: who was in them, and what was typed there, as hashes. It runs
    in one transaction, so a reader of the log meets either all of a decision or none of it.

    `by_age`: only the decisions; see `ForgetOlder` for what goes with them.
    """

    ids: Sequence[str]
    by_age: bool = False

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> ErasedCounts:
        """Erase them, and return how many there were."""
        connection = begin_erasure(transaction)
        sessions: set[tuple[str, str]] = set()
        users: set[tuple[str, str]] = set()
        erased = ErasedCounts()
        for part in events.parts(self.ids):
            columns = (
                schema.decisions.c.owner,
                schema.decisions.c.session_id,
                schema.decisions.c.user_hash,
            )
            for row in connection.execute(
                sa.select(*columns).where(schema.decisions.c.id.in_(part))
            ):
                sessions.add((row.owner, row.session_id))
                if row.user_hash is not None:
                    users.add((row.owner, row.user_hash))
            tombstones = sa.update(schema.events).where(
                schema.events.c.decision_id.in_(part), schema.events.c.kind.in_(_OF_DECISIONS)
            )
            empty = tombstones.values(
                kind=events.Forgotten.kind,
                body=events.to_json(events.Forgotten()),
                decision_id=None,
            )
            count = connection.execute(empty).rowcount
            left = connection.execute(
                sa.delete(schema.decisions).where(schema.decisions.c.id.in_(part))
            ).rowcount
            erased = ErasedCounts(erased.decisions + left, erased.events + count)
        if self.by_age:
            transaction.read_again()
            return erased
        forget_teaching(connection, sessions, users)
        keys = [transaction.session_key(*session) for session in sessions]
        forget_names(connection, keys)
        forget_sightings(connection, schema.sightings.c.session_key, keys)
        forget_names(connection, (user for _, user in users if _has_no_records(connection, user)))
        transaction.read_again()
        return erased


def _has_no_records(connection: sa.Connection, user: str) -> bool:
    """Whether nothing of a user is left but the name."""
    for table in (schema.sightings, schema.decisions):
        left = sa.select(table.c.time).where(table.c.user_hash == user).limit(1)
        if connection.execute(left).first() is not None:
            return False
    return True


def begin_erasure(transaction: Transaction) -> sa.Connection:
    """Begin or go on with an erasure: no snapshot is left, and the store says that it goes on."""
    transaction.flush()
    connection = transaction.connection
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")  # until the file is cleaned
    connection.execute(sa.delete(schema.snapshots))
    connection.execute(sa.update(schema.counter).values(erasing=transaction.time))
    return connection


def forget_names(connection: sa.Connection, names: Iterable[str]) -> int:
    """Delete users or sessions from the identities; return how many were there.

    Those who are left of an identity stay one person, under a name of their own.
    """
    count = 0
    for part in events.parts(names):
        count += connection.execute(
            sa.delete(schema.identities).where(schema.identities.c.name.in_(part))
        ).rowcount
        orphans = sa.select(
            schema.identities.c.identity, sa.func.min(schema.identities.c.name)
        ).where(schema.identities.c.identity.in_(part))
        for erased, other in connection.execute(
            orphans.group_by(schema.identities.c.identity)
        ).all():
            same = sa.update(schema.identities).where(schema.identities.c.identity == erased)
            connection.execute(same.values(identity=other))
    return count


def forget_sightings(
    connection: sa.Connection, column: sa.Column[str], values: Iterable[str]
) -> int:
    """Delete who typed what, by user or session, and count the texts again; return how many."""
    count = 0
    for part in events.parts(values):
        these = column.in_(part)
        texts = set(
            connection.execute(
                sa.select(schema.sightings.c.text_key).where(these).distinct()
            ).scalars()
        )
        count += connection.execute(sa.delete(schema.sightings).where(these)).rowcount
        count_again(connection, texts)
    return count


def forget_teaching(
    connection: sa.Connection,
    sessions: Iterable[tuple[str, str]],
    users: Collection[tuple[str, str]],
) -> None:
    """Delete how much these sessions and users taught lately; each is given with its owner."""
    known: dict[str, str] = {}
    for part in events.parts(user for _, user in users):
        rows = sa.select(schema.identities.c.name, schema.identities.c.identity)
        for name, identity in connection.execute(rows.where(schema.identities.c.name.in_(part))):
            known[name] = identity
    people = {(owner, known.get(user, user)) for owner, user in users}
    for part in events.parts(names_of(sessions, people | set(users))):
        connection.execute(sa.delete(schema.teaching).where(schema.teaching.c.who.in_(part)))


_REFUSED = ("removed", "rejected")


@dataclass(frozen=True)
class ForgetTraces:
    """Erase what names somebody beside their decisions: a user or a session, with all sessions."""

    who: Who
    sessions: tuple[Owned, ...] = ()

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Erase it, and return how many rows and events there were."""
        transaction.flush()
        rows = self._named(transaction, self.who)
        if rows:
            begin_erasure(transaction)
            transaction.read_again()
        return rows

    def _named(self, transaction: Transaction, who: Who) -> int:
        connection = transaction.connection
        sessions = set(self.sessions)
        if who.session_id is not None:
            sessions |= {(owner, who.session_id) for owner in _owners(connection, who)}
        names = [transaction.session_key(*session) for session in sessions]
        users = [] if who.user_hash is None else [who.user_hash]
        if users and self._goes_on(connection, who):
            users = []  # the same id of another owner
        forget_teaching(
            connection,
            sessions,
            [(owner, user) for owner in _owners(connection, who) for user in users],
        )
        rows = forget_sightings(connection, schema.sightings.c.session_key, names)
        rows += forget_sightings(connection, schema.sightings.c.user_hash, users)
        rows += forget_names(connection, [*names, *users])
        return rows + _forget_leave_outs(connection, users)

    @staticmethod
    def _goes_on(connection: sa.Connection, who: Who) -> bool:
        """Whether the user is known to other owners than the one that is meant."""
        if who.owner is None:
            return False
        known = (
            sa.select(schema.decisions.c.id)
            .where(schema.decisions.c.user_hash == who.user_hash)
            .limit(1)
        )
        return connection.execute(known).first() is not None


@dataclass(frozen=True)
class EndArms:
    """End the arms that fell, from the next answer of every worker; return all texts that fell."""

    why: str
    by: events.By | None = None
    pool_arms: tuple[int, ...] = ()
    pool_texts: frozenset[str] = frozenset()  #: of these, and of others that are no arms any more

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> Marked:
        """Append the event, if there are such arms."""
        marked_arms = marked(begin_erasure(transaction))
        text_keys = [transaction.text_key(text) for text in self.pool_texts]
        for part in events.parts(text_keys):  # those that an operator removed
            these = schema.arm_texts.c.text_key.in_(part), schema.arm_texts.c.min_users.is_(None)
            changed = sa.update(schema.arm_texts).where(
                *these, schema.arm_texts.c.state.in_(_REFUSED)
            )
            transaction.connection.execute(changed.values(shown=""))
        arms = tuple(sorted({*marked_arms.arms, *self.pool_arms}))
        if arms:
            _erased(transaction, events.Erased(why=self.why, arms=arms, by=self.by))
        return marked_arms


@dataclass(frozen=True)
class EndErasure:
    """Append the event that makes every state be computed again; it is the last of an erasure.

    `due`: whether something was erased; else only if the store says so, of an earlier run.
    """

    why: str
    marked: Marked = NONE_MARKED
    by: events.By | None = None
    due: bool = False

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Write it if it is due; return its position, or 0."""
        transaction.flush()
        connection = transaction.connection
        unfinished = (
            connection.execute(sa.select(schema.counter.c.erasing)).scalar_one() is not None
        )
        if not self.due and not unfinished:
            return 0
        begin_erasure(transaction)
        _empty_voids(connection)
        end(transaction, self.marked)
        position = _erased(transaction, events.Erased(why=self.why, by=self.by))
        connection.execute(sa.update(schema.counter).values(erasing=None))
        transaction.read_again()
        return position


def _erased(transaction: Transaction, body: events.Erased) -> int:
    """Append the event; states from before it are no snapshots any more."""
    position = transaction.append(body)
    if body.arms:
        transaction.raise_barrier()
    transaction.flush()
    transaction.connection.execute(sa.update(schema.counter).values(erased=position))
    return position


def _owners(connection: sa.Connection, who: Who) -> set[str]:
    if who.owner is not None:
        return {who.owner}
    return {"", *connection.execute(sa.select(schema.keys.c.owner).distinct()).scalars()}


def _forget_leave_outs(connection: sa.Connection, users: list[str]) -> int:
    """Take a user out of the events that leave out decisions; what they leave out stays."""
    these = sa.select(schema.events).where(schema.events.c.kind == events.LeftOut.kind)
    count = 0
    for row in connection.execute(these).all() if users else ():
        body = as_event(row).body
        if isinstance(body, events.LeftOut) and body.user_hash in users:
            here = sa.update(schema.events).where(schema.events.c.position == row.position)
            connection.execute(here.values(body=events.to_json(replace(body, user_hash=None))))
            count += 1
    return count


def _empty_voids(connection: sa.Connection) -> None:
    """Empty the void events: what could not be read in them may be anybody's."""
    for row in connection.execute(
        sa.select(schema.events).where(schema.events.c.kind == events.Void.kind)
    ).all():
        body = as_event(row).body
        if isinstance(body, events.Void) and body.body:
            here = sa.update(schema.events).where(schema.events.c.position == row.position)
            connection.execute(here.values(body=events.to_json(replace(body, body=""))))


AT_ONCE = 500  # decisions erased in one transaction
Progress = Callable[[str, float | None], None]
Result = TypeVar("Result")


class Submit(Protocol):
    """Writes one change in a transaction, and returns what it returns."""

    def __call__(self, write: Write[Result], /) -> Result:
        """Write it."""


class ErasedFromLog(NamedTuple):
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
    by: events.By | None = None,
    progress: Progress | None = None,
) -> ErasedFromLog:
    """Erase what the log knows of somebody up to now; requests go on being answered meanwhile.

    Arms of the pool that end with them are shown by no worker any more.
    """
    report: Progress = progress or (lambda stage, done: None)
    report("find", None)
    until = store.head().position
    with store.reading() as connection:
        known = found(connection, who, until)
    report("find", 1.0)
    erased = erase_all(known.decisions, submit, lambda done: report("erase decisions", done))
    rows = submit(ForgetTraces(who, tuple(known.sessions)))
    ended = _end_arms(store, submit, who.why, by, report, of_pool)
    of_pool.write()
    due = erased.events + rows + len(of_pool.arms) > 0
    position = submit(EndErasure(who.why, ended, by, due=due))
    return ErasedFromLog(*erased, rows, len(ended.arms), position)


def _end_arms(
    store: Store,
    submit: Submit,
    why: str,
    by: events.By | None,
    report: Progress,
    of_pool: OfPool = NOTHING_OF_POOL,
) -> Marked:
    """End the arms that too few people are left of, and take their texts out of all decisions."""
    with store.reading() as connection:
        few = marked(connection)
    if not few.texts and not of_pool.texts:
        return few
    searching, taking = "search who typed the same", "take out texts"
    of_pool_alone = Leaving.of(of_pool.texts, of_pool.arms)
    known = search(store, few, lambda done: report(searching, done), leaving=of_pool_alone)
    report(searching, 1.0)
    for start in range(0, len(known.people), AT_ONCE):
        submit(Count(known.people[start : start + AT_ONCE]))
    few = submit(EndArms(why, by, of_pool.arms, of_pool.texts))
    leaving = Leaving.of({*few.texts.values(), *of_pool.texts}, {*few.by_arm, *of_pool.arms})
    if leaving.texts:
        found = {at for text in few.texts.values() for at in known.having.get(text, ())}
        found.update(known.leaving)
        after = known.until
        take_out(store, leaving, found, submit, lambda done: report(taking, done), after=after)
        report(taking, 1.0)
    return few


def erase_all(ids: list[str], submit: Submit, report: Callable[[float], None]) -> ErasedCounts:
    """Erase decisions, some hundreds at a time, so that others are not held up for long."""
    erased = ErasedCounts()
    for start in range(0, len(ids), AT_ONCE):
        now = submit(EraseDecisions(ids[start : start + AT_ONCE]))
        erased = ErasedCounts(erased.decisions + now.decisions, erased.events + now.events)
        report(min(1.0, (start + AT_ONCE) / len(ids)))
    return erased


def finish(store: Store, submit: Submit, *, why: str = "age") -> int:
    """Finish an erasure that was interrupted, as far as it went; return the position, or 0.

    Whoever was being forgotten may still have decisions: only the same command can find them.
    """
    ended = _end_arms(store, submit, why, None, lambda stage, done: None)
    return submit(EndErasure(why, ended))


def unfinished_since(store: Store) -> float | None:
    """Return when an erasure that has not ended last went on; None if there is none."""
    with store.reading() as connection:
        found: Any = connection.execute(sa.select(schema.counter.c.erasing)).scalar_one()
    return None if found is None else float(found)


DAY = 86_400.0


def first_kept(now: float, days: float) -> float:
    """Return the first time that is kept: the start of a day of UTC, so that it changes daily.

    >>> first_kept(10.5 * DAY, 3.0) / DAY
    7.0
    """
    return (now - days * DAY) // DAY * DAY


def erase_older(
    store: Store, before: float, submit: Submit, *, pause: Callable[[], bool] = lambda: False
) -> int:
    """Erase the decisions from before a time; return how many there were.

    `pause` is called between two transactions, so that requests come first; if it returns True, the
    rest is left for the next time.
    """
    erased = 0
    while ids := _older(store, before):
        erased += submit(EraseDecisions(ids, by_age=True)).decisions
        if pause():
            return erased
    forgot = submit(ForgetOlder(before))  # also what a run left that was killed before this
    if erased or forgot:
        submit(EndErasure("age", due=True))
    return erased


def _older(store: Store, before: float) -> list[str]:
    """Return some of the decisions that are older, the oldest first; those still open are not."""
    rows = sa.select(schema.decisions.c.id).where(
        schema.decisions.c.time < before, schema.decisions.c.state != "open"
    )
    with store.reading() as connection:
        found = connection.execute(rows.order_by(schema.decisions.c.position).limit(AT_ONCE))
        return list(found.scalars())


@dataclass(frozen=True)
class ForgetOlder:
    """Forget who typed what before a time, and who shared a session, once nothing needs it.

    Who typed the text of an arm, or of a query under review, stays: an arm must keep its people,
    so that it can be counted again when one of them is forgotten.
    """

    before: float

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> bool:
        """Delete them; return whether there were any."""
        transaction.flush()
        connection = transaction.connection
        counted = sa.select(schema.arm_texts.c.text_key).where(
            schema.arm_texts.c.state.in_(("added", "held"))
        )
        old = sa.and_(
            schema.sightings.c.time < self.before, schema.sightings.c.text_key.not_in(counted)
        )
        aged = sa.select(schema.identities.c.name).where(schema.identities.c.time < self.before)
        names = set(connection.execute(aged).scalars())
        names -= self._used(transaction, sa.not_(old)) if names else set()
        typed = connection.execute(sa.select(schema.sightings.c.time).where(old).limit(1)).first()
        if not names and typed is None:
            return False
        begin_erasure(transaction)
        connection.execute(sa.delete(schema.sightings).where(old))
        forget_names(connection, names)
        transaction.read_again()
        return True

    @staticmethod
    def _used(transaction: Transaction, stay: sa.ColumnElement[bool]) -> set[str]:
        """Return the users and sessions of decisions, and of the sightings that stay."""
        connection = transaction.connection
        columns = (schema.sightings.c.user_hash, schema.sightings.c.session_key)
        typed = connection.execute(sa.select(*columns).where(stay))
        used = {name for row in typed for name in row}
        found = sa.select(
            schema.decisions.c.user_hash, schema.decisions.c.owner, schema.decisions.c.session_id
        )
        for user, owner, session_id in connection.execute(found.distinct()):
            used |= {user, transaction.session_key(owner, session_id)}
        return used


_log = logging.getLogger("nextquery.service")
ABANDONED_S = 600.0
"""Seconds after which an erasure that does not go on is taken for one that was killed."""
SMALL = 64 << 20
"""Bytes of a store that a service cleans by itself: others wait for less than about a second."""


class Tidy:
    """Looks after the store of a running service.

    Parameters
    ----------
    store : the log.
    submit : writes a change and waits for it.
    days : the setting `retention_days`; None: decisions are kept for ever.
    pause : waits between two transactions; True to stop.
    """

    def __init__(
        self, store: Store, submit: Submit, days: float | None, pause: Callable[[], bool]
    ) -> None:
        self.store, self.days = store, days
        self._submit, self._pause = submit, pause
        self._kept_since = 0.0  # nothing older is left

    def once(self, now: float) -> int:
        """Do what is due at a time of the log's clock; return how many decisions were erased."""
        erased = 0
        since = unfinished_since(self.store)
        if since is not None and now - since > ABANDONED_S:
            finish(self.store, self._submit)
        if self.days is not None:
            before = first_kept(now, self.days)
            if before > self._kept_since:
                erased = erase_older(self.store, before, self._submit, pause=self._pause)
                if not self._pause():
                    self._kept_since = before
                if erased:
                    _log.info("retention: erased %d decisions", erased)
        self.clean_if_small()
        return erased

    def clean_if_small(self) -> bool:
        """Clean the files after an erasure; a large store is left to ``nextquery forget``.

        Returns whether nothing of an erasure is left in the files.
        """
        if not needs_cleaning(self.store):
            return True
        if self.store.size() > SMALL:
            return False
        try:
            clean(self.store)
        except (StorageError, OSError) as error:  # the next look tries again
            _log.warning("could not clean the store after an erasure: %s", error)
            return False
        return True
