"""Counting again who typed a text: an arm that too few people typed is no arm.

The table `sightings` has those who made it an arm. Who typed it since is in the log, so that is
searched before a text falls, and whoever is found there is counted too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.service.log.erasure.spellings import Leaving, asked_in, letters_of, plain, texts_in
from nextquery.service.log.events import ArmAdded, ArmHeld, ArmRejected, DecisionEvent, parts
from nextquery.service.log.schema import arm_texts, decisions, events, identities, sightings
from nextquery.service.log.store import Store, as_event, head_of
from nextquery.service.log.writer import NOTHING, Needs, Transaction
from nextquery.signing import keyed

PAGE = 2000  # events read together
OF_ARMS = [kind.kind for kind in (ArmAdded, ArmHeld, ArmRejected)]
_MORE = 10  # people remembered of each text beyond those it needs: some may be one person


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


class Search(NamedTuple):
    """Who typed marked texts, and which decisions have each of them, up to a position.

    `leaving` are the decisions with what leaves in any case.
    """

    people: list[Typed]
    having: dict[str, list[int]]
    leaving: list[int]
    until: int


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


def search(
    store: Store, found: Marked, tell: Callable[[float], None], *, leaving: Leaving
) -> Search:
    """Search the whole log for marked texts: who typed them, and which decisions have them."""
    names = {plain(text): text for text in found.texts.values()}
    spelt = {letters_of(text): text for text in found.texts.values()}
    typed, having, until = dict[int, str](), dict[str, list[int]](), 0
    gone = list[int]()
    for page in decisions_in_pages(store, tell):
        for position, body in page:
            asked = asked_in(body)
            text = None if asked.arm is None else found.by_arm.get(asked.arm)
            text = names.get(asked.text) if text is None else text
            if text is not None:
                typed[position] = text
            elif asked.arm is None:
                text = spelt.get(asked.letters)
            has = {names[name] for name in names.keys() & texts_in(body)}
            for one in has if text is None else {*has, text}:
                having.setdefault(one, []).append(position)
            if leaving.texts and leaving.in_decision(body):
                gone.append(position)
            until = position
    people = _people(store, typed, most=found.least + _MORE)
    return Search(people, having, gone, until)


def decisions_in_pages(
    store: Store, tell: Callable[[float], None], *, after: int = 0
) -> Iterator[list[tuple[int, str]]]:
    """Yield the positions and bodies of all decisions after a position, page by page."""
    head = max(1, store.head().position)
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
        connection, rows = transaction.connection, dict[tuple[str, str], dict[str, object]]()
        for text, user_hash, owner, session_id, time in self.people:
            key = transaction.text_key(text)
            row = {"text_key": key, "user_hash": user_hash, "time": time}
            row["session_key"] = transaction.session_key(owner, session_id)
            rows[key, user_hash] = row
        keys = {key for key, _ in rows}
        columns = (sightings.c.text_key, sightings.c.user_hash)
        for part in parts(keys):
            known = sa.select(*columns).where(sightings.c.text_key.in_(part))
            for key, user_hash in connection.execute(known):
                rows.pop((key, user_hash), None)
        if rows:
            connection.execute(sa.insert(sightings), list(rows.values()))
        count_again(connection, keys)
        transaction.read_again()
