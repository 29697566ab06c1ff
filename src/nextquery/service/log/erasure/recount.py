"""Counting again who typed a text: an arm that too few people typed is no arm.

The table `sightings` has those who made it an arm. Who typed it since is in the log, so that is
searched before a text falls, and whoever is found there is counted too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.service.log.events import (
    ArmAdded,
    ArmHeld,
    DecisionEvent,
)
from nextquery.service.log.new_arms.parts import parts
from nextquery.service.log.operators.changes import ArmRejected
from nextquery.service.log.schema import arm_texts, decisions, events, identities, sightings
from nextquery.service.log.store import Store, as_event, head_of
from nextquery.service.log.transaction import NOTHING, Needs, Transaction
from nextquery.signing import keyed

PAGE = 2000  # events read together
_TOGETHER = 500  # people remembered in one transaction
OF_ARMS = [kind.kind for kind in (ArmAdded, ArmHeld, ArmRejected)]
_MORE = 10  # people remembered of each text beyond those it needs: some may be one person
_ARM = re.compile(r'"anchor_arm":(\d+)')
_QUERY = re.compile(r'"query":"((?:[^"\\]|\\.)*)"')


class Marked(NamedTuple):
    """Texts that too few people are left of.

    `texts` has them by the positions of their own events, `by_arm` by arm (also of those that an
    operator had removed), and `arms` are the arms that live. Each needs `least` people at most.
    """

    texts: dict[int, str]
    by_arm: dict[int, str]
    arms: tuple[int, ...]
    least: int = 0


NONE_MARKED = Marked({}, {}, ())


class Typed(NamedTuple):
    """Somebody who typed a text."""

    text: str
    user_hash: str
    owner: str
    session_id: str
    time: float


def count_again(connection: sa.Connection, text_keys: Iterable[str]) -> None:
    """Mark the texts that too few people are left of, each in a session of their own.

    The mark is a negative `min_users`. It stays until the text is erased or saved, whatever happens
    meanwhile; a marked text that enough people typed loses it.
    """
    for part in parts(text_keys):
        who = sa.func.coalesce(identities.c.identity, sightings.c.user_hash)
        people = (
            sa.select(
                sightings.c.text_key,
                sa.func.count(who.distinct()).label("people"),
                sa.func.count(sightings.c.session_key.distinct()).label("sessions"),
            )
            .select_from(
                sightings.outerjoin(identities, identities.c.name == sightings.c.user_hash)
            )
            .where(sightings.c.text_key.in_(part))
            .group_by(sightings.c.text_key)
        )
        left = {row.text_key: min(row.people, row.sessions) for row in connection.execute(people)}
        columns = (arm_texts.c.text_key, arm_texts.c.min_users)
        these = arm_texts.c.text_key.in_(part), arm_texts.c.min_users.is_not(None)
        for key, least in connection.execute(sa.select(*columns).where(*these)).all():
            enough = left.get(key, 0) >= abs(least)
            if enough != (least > 0):
                changed = sa.update(arm_texts).where(arm_texts.c.text_key == key)
                connection.execute(changed.values(min_users=-least))


def marked(connection: sa.Connection) -> Marked:
    """Find the texts that are marked and not yet erased."""
    columns = [arm_texts.c[name] for name in ("text_key", "arm", "state", "min_users")]
    found = sa.select(*columns).where(arm_texts.c.min_users < 0, arm_texts.c.shown != "")
    rows = {row.text_key: row for row in connection.execute(found)}
    if not rows:
        return NONE_MARKED
    secret = head_of(connection).secret
    texts, names = {}, {}
    of_arms = sa.select(events).where(events.c.kind.in_(OF_ARMS)).order_by(events.c.position)
    for row in connection.execute(of_arms):
        body = as_event(row).body
        assert isinstance(body, ArmAdded | ArmHeld | ArmRejected)
        key = keyed(secret, "text", body.text)
        if key in rows:
            texts[row.position], names[key] = body.text, body.text
    by_arm = {row.arm: names[key] for key, row in rows.items() if row.arm and key in names}
    arms = sorted(row.arm for row in rows.values() if row.state == "added")
    return Marked(texts, by_arm, tuple(arms), max(-row.min_users for row in rows.values()))


def save_typed(
    store: Store, found: Marked, submit: Callable[["Count"], object], tell: Callable[[float], None]
) -> None:
    """Count those who typed marked texts since they were arms, as the log has them."""
    names, typed = {plain(text): text for text in found.texts.values()}, dict[int, str]()
    for positions in decisions_in_pages(store, tell):
        for position, body in positions:
            arm = _ARM.search(body)
            text = found.by_arm.get(int(arm[1])) if arm else None
            if text is None and (query := _QUERY.search(body)):
                text = names.get(" ".join(query[1].lower().split()))
            if text is not None:
                typed[position] = text
    people = _people(store, typed, most=found.least + _MORE)
    for start in range(0, len(people), _TOGETHER):
        submit(Count(people[start : start + _TOGETHER]))


def decisions_in_pages(
    store: Store, tell: Callable[[float], None]
) -> Iterator[list[tuple[int, str]]]:
    """Yield the positions and bodies of all decisions, page by page."""
    after, head = 0, max(1, store.head().position)
    while True:
        these = events.c.position > after, events.c.kind == DecisionEvent.kind
        page = sa.select(events.c.position, events.c.body).where(*these)
        with store.reading() as connection:
            rows = connection.execute(page.order_by(events.c.position).limit(PAGE)).all()
        yield [(row.position, row.body) for row in rows]
        if len(rows) < PAGE:
            return
        after = rows[-1].position
        tell(min(1.0, after / head))


def plain(text: str) -> str:
    """Return a text as it is compared: as in JSON, without regard to case and white space.

    >>> plain("Straße  A")
    'stra\\\\u00dfe a'
    """
    return " ".join(json.dumps(text)[1:-1].lower().split())


def _people(store: Store, typed: dict[int, str], *, most: int) -> list[Typed]:
    """Return who made these decisions, each person once for a text, and at most so many of it."""
    found: dict[str, dict[str, Typed]] = {}
    names = ("position", "user_hash", "owner", "session_id", "time")
    rows = sa.select(*(decisions.c[name] for name in names))
    positions = sorted(typed)
    with store.reading() as connection:
        for start in range(0, len(positions), PAGE // 4):
            some = decisions.c.position.in_(positions[start : start + PAGE // 4])
            for row in connection.execute(rows.where(some, decisions.c.user_hash.is_not(None))):
                people = found.setdefault(typed[row.position], {})
                if len(people) < most:
                    person = Typed(typed[row.position], *row[1:])
                    people.setdefault(row.user_hash, person)
    return [person for people in found.values() for person in people.values()]


@dataclass(frozen=True)
class Count:
    """Remember who else typed marked texts, and count these again."""

    people: Sequence[Typed]

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> None:
        """Add them to the sightings."""
        transaction.flush()
        connection, keys = transaction.connection, set[str]()
        for text, user_hash, owner, session_id, time in self.people:
            key = transaction.text_key(text)
            keys.add(key)
            known = sa.select(sightings.c.time).where(
                sightings.c.text_key == key, sightings.c.user_hash == user_hash
            )
            if connection.execute(known).first() is None:
                row = {"text_key": key, "user_hash": user_hash, "time": time}
                session = transaction.session_key(owner, session_id)
                connection.execute(sa.insert(sightings).values(**row, session_key=session))
        count_again(connection, keys)
        transaction.read_again()
