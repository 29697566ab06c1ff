"""Erase texts that too few people typed, in every spelling and everywhere in the store.

Such a text is an arm, waits for review, or was refused by an operator. Its arm ends first, so
that no new slate has it. Then the text is removed from everybody's decisions: from slates, and
from what was typed. Its own events become tombstones last. Until then the text can be read there,
so an interrupted erasure can continue.

The table `sightings` has the people who made a text an arm. Later people are only in the log. So
the log is searched before a text is removed, and everyone found there counts too.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

import sqlalchemy as sa

from nextquery.segments import key_of, segment_of, text_of
from nextquery.service.log import events, schema
from nextquery.service.log.store import Store, as_event, head_of
from nextquery.service.log.writer import NOTHING, Needs, Transaction
from nextquery.signing import keyed

_ARM = re.compile(r'"anchor_arm":(\d+|null)')
_TEXTS = re.compile(r'"(?:text|query|after_text)":"((?:[^"\\]|\\.)*)"')
_SEGMENT = re.compile(r'"segment":"((?:[^"\\]|\\.)*)"')
_QUERY = re.compile(r'"query":"((?:[^"\\]|\\.)*)"')


def plain(text: str) -> str:
    """Return a text as it is compared: without regard to case and white space.

    >>> plain("Straße  A")
    'straße a'
    """
    return " ".join(text.lower().split())


def letters(text: str) -> str:
    """Return the letters and digits of a query, which cleaning keeps.

    >>> letters("Ärzte, in%20Köln?") == letters("arzte in koln")
    True
    """
    decoded = unquote(text) if "%" in text else text
    if not decoded.isascii():
        decoded = unicodedata.normalize("NFKD", decoded)
    return "".join(filter(str.isalnum, decoded.casefold()))


class DecisionQuery(NamedTuple):
    """The query of a decision, as it was typed, with its arm and its segment."""

    query: str
    arm: int | None
    segment: str = ""

    @property
    def text(self) -> str:
        """Its key as a text, as `plain` gives it."""
        return plain(key_of(self.segment, self.query))

    @property
    def letters(self) -> str:
        """Its key by its letters."""
        return key_of(self.segment, letters(self.query))


def asked_in(body: str) -> DecisionQuery:
    """Return the query in the JSON of a decision."""
    query, arm = _QUERY.search(body), _ARM.search(body)
    known = int(arm[1]) if arm and arm[1] != "null" else None
    return DecisionQuery(_read(query[1]) if query else "", known, _segment(body))


def letters_of(key: str) -> str:
    """Return the key of a text by its letters, as `DecisionQuery.letters`."""
    return key_of(segment_of(key), letters(text_of(key)))


def texts_in(body: str) -> set[str]:
    """Return the keys of the texts in the JSON of a decision, as `plain` gives them."""
    texts, segment = [_read(text) for text in _TEXTS.findall(body)], _segment(body)
    found = set(map(plain, texts))  # some have their segment already
    return found | {plain(key_of(segment, text)) for text in texts} if segment else found


def _segment(body: str) -> str:
    found = _SEGMENT.search(body) if '"segment":' in body else None  # most have none
    return _read(found[1]) if found else ""


def _read(text: str) -> str:
    return str(json.loads(f'"{text}"')) if "\\" in text else text


@dataclass(frozen=True)
class Leaving:
    """Texts and arms that leave the log.

    A query is one of them if it has their text or their arm; if it has no arm, also if it has their
    letters: it may have been typed before there was one.
    """

    texts: frozenset[str]  #: as `plain` gives them
    letters: frozenset[str]
    arms: frozenset[int]

    @classmethod
    def of(cls, texts: Iterable[str], arms: Iterable[int]) -> "Leaving":
        """Return what leaves with these texts, which are keys of arms, and with these arms."""
        known = list(texts)
        spelt = {letters_of(text) for text in known if letters(text_of(text))}
        return cls(frozenset(map(plain, known)), frozenset(spelt), frozenset(arms))

    def is_query(self, asked: DecisionQuery) -> bool:
        """Whether a typed query leaves."""
        if asked.text in self.texts or asked.arm in self.arms:
            return True
        return asked.arm is None and asked.letters in self.letters

    def in_decision(self, body: str) -> bool:
        """Whether the JSON of a decision has anything that leaves."""
        return bool(self.texts & texts_in(body)) or self.is_query(asked_in(body))

    def without(self, body: events.DecisionEvent) -> events.DecisionEvent:
        """Return a decision without it."""

        def leaves(text: str) -> bool:
            keys = {plain(text), plain(key_of(body.segment, text))}
            return bool(self.texts & keys)

        slate = tuple(
            replace(entry, text="") if leaves(entry.text) else entry for entry in body.slate
        )
        own = body.own
        if own is not None and leaves(own.text):
            own = replace(own, text="", vector="")
        if own is not None and leaves(own.after_text):
            own = replace(own, after_text="")
        asked = DecisionQuery(body.query, body.anchor_arm, body.segment)
        query = "" if self.is_query(asked) else body.query
        return replace(body, slate=slate, own=own, query=query)


PAGE = 2000  # events read together
OF_ARMS = [kind.kind for kind in (events.ArmAdded, events.ArmHeld, events.ArmRejected)]
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


class TypedText(NamedTuple):
    """Somebody who typed a text."""

    text: str
    user_hash: str
    owner: str
    session_id: str
    time: float


class TextUses(NamedTuple):
    """Who typed marked texts, and which decisions have each of them, up to a position.

    `leaving` are the decisions with what leaves in any case.
    """

    people: list[TypedText]
    having: dict[str, list[int]]
    leaving: list[int]
    until: int


def count_again(connection: sa.Connection, text_keys: Iterable[str]) -> None:
    """Mark the texts that too few people are left of, each in a session of their own.

    The mark is a negative `min_users`. It stays until the text is erased or saved, whatever happens
    meanwhile; a marked text that enough people typed loses it.
    """
    for part in events.parts(text_keys):
        who = sa.func.coalesce(schema.identities.c.identity, schema.sightings.c.user_hash)
        people = (
            sa.select(
                schema.sightings.c.text_key,
                sa.func.count(who.distinct()).label("people"),
                sa.func.count(schema.sightings.c.session_key.distinct()).label("sessions"),
            )
            .select_from(
                schema.sightings.outerjoin(
                    schema.identities, schema.identities.c.name == schema.sightings.c.user_hash
                )
            )
            .where(schema.sightings.c.text_key.in_(part))
            .group_by(schema.sightings.c.text_key)
        )
        left = {row.text_key: min(row.people, row.sessions) for row in connection.execute(people)}
        columns = (schema.arm_texts.c.text_key, schema.arm_texts.c.min_users)
        these = schema.arm_texts.c.text_key.in_(part), schema.arm_texts.c.min_users.is_not(None)
        for key, least in connection.execute(sa.select(*columns).where(*these)).all():
            enough = left.get(key, 0) >= abs(least)
            if enough != (least > 0):
                changed = sa.update(schema.arm_texts).where(schema.arm_texts.c.text_key == key)
                connection.execute(changed.values(min_users=-least))


def marked(connection: sa.Connection) -> Marked:
    """Find the texts that are marked and not yet erased."""
    columns = [schema.arm_texts.c[name] for name in ("text_key", "arm", "state", "min_users")]
    found = sa.select(*columns).where(
        schema.arm_texts.c.min_users < 0, schema.arm_texts.c.shown != ""
    )
    rows = {row.text_key: row for row in connection.execute(found)}
    if not rows:
        return NONE_MARKED
    secret = head_of(connection).secret
    texts, names = {}, {}
    of_arms = (
        sa.select(schema.events)
        .where(schema.events.c.kind.in_(OF_ARMS))
        .order_by(schema.events.c.position)
    )
    for row in connection.execute(of_arms):
        body = as_event(row).body
        assert isinstance(body, events.ArmAdded | events.ArmHeld | events.ArmRejected)
        key = keyed(secret, "text", body.text)
        if key in rows:
            texts[row.position], names[key] = body.text, body.text
    by_arm = {row.arm: names[key] for key, row in rows.items() if row.arm and key in names}
    arms = sorted(row.arm for row in rows.values() if row.state == "added")
    return Marked(texts, by_arm, tuple(arms), max(-row.min_users for row in rows.values()))


def search(
    store: Store, found: Marked, progress: Callable[[float], None], *, leaving: Leaving
) -> TextUses:
    """Search the whole log for marked texts: who typed them, and which decisions have them."""
    names = {plain(text): text for text in found.texts.values()}
    spelt = {letters_of(text): text for text in found.texts.values()}
    typed, having, until = dict[int, str](), dict[str, list[int]](), 0
    leaving_positions = list[int]()
    for page in decisions_in_pages(store, progress):
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
                leaving_positions.append(position)
            until = position
    people = _people(store, typed, most=found.least + _MORE)
    return TextUses(people, having, leaving_positions, until)


def decisions_in_pages(
    store: Store, progress: Callable[[float], None], *, after: int = 0
) -> Iterator[list[tuple[int, str]]]:
    """Yield the positions and bodies of all decisions after a position, page by page."""
    head = max(1, store.head().position)
    while True:
        these = schema.events.c.position > after, schema.events.c.kind == events.DecisionEvent.kind
        page = sa.select(schema.events.c.position, schema.events.c.body).where(*these)
        with store.reading() as connection:
            rows = connection.execute(page.order_by(schema.events.c.position).limit(PAGE)).all()
        yield [(row.position, row.body) for row in rows]
        if len(rows) < PAGE:
            return
        after = rows[-1].position
        progress(min(1.0, after / head))


def _people(store: Store, typed: dict[int, str], *, most: int) -> list[TypedText]:
    """Return who made these decisions, each person once for a text, and at most so many of it."""
    found: dict[str, dict[str, TypedText]] = {}
    names = ("position", "user_hash", "owner", "session_id", "time")
    rows = sa.select(*(schema.decisions.c[name] for name in names))
    positions = sorted(typed)
    with store.reading() as connection:
        for start in range(0, len(positions), PAGE // 4):
            some = schema.decisions.c.position.in_(positions[start : start + PAGE // 4])
            for row in connection.execute(
                rows.where(some, schema.decisions.c.user_hash.is_not(None))
            ):
                people = found.setdefault(typed[row.position], {})
                if len(people) < most:
                    person = TypedText(typed[row.position], *row[1:])
                    people.setdefault(row.user_hash, person)
    return [person for people in found.values() for person in people.values()]


@dataclass(frozen=True)
class Count:
    """Remember who else typed marked texts, and count these again."""

    people: Sequence[TypedText]

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
        columns = (schema.sightings.c.text_key, schema.sightings.c.user_hash)
        for part in events.parts(keys):
            known = sa.select(*columns).where(schema.sightings.c.text_key.in_(part))
            for key, user_hash in connection.execute(known):
                rows.pop((key, user_hash), None)
        if rows:
            connection.execute(sa.insert(schema.sightings), list(rows.values()))
        count_again(connection, keys)
        transaction.read_again()


_WRITTEN = 200  # events changed in one transaction


def take_out(
    store: Store,
    leaving: Leaving,
    found: set[int],
    submit: Callable[["TakeOut"], object],
    progress: Callable[[float], None],
    *,
    after: int,
) -> None:
    """Take texts out of all decisions, a few in one transaction.

    A search has `found` them up to the position `after`; the rest of the log is searched here.
    """
    for page in decisions_in_pages(store, progress, after=after):
        found |= {position for position, body in page if leaving.in_decision(body)}
    positions = sorted(found)
    for start in range(0, len(positions), _WRITTEN):
        submit(TakeOut(positions[start : start + _WRITTEN], leaving))
        progress(start / len(positions))


@dataclass(frozen=True)
class TakeOut:
    """Take some texts out of the decisions at these positions."""

    positions: Sequence[int]
    leaving: Leaving

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> None:
        """Write the decisions without them."""
        transaction.flush()
        connection = transaction.connection
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
        these = (
            schema.events.c.position.in_(self.positions),
            schema.events.c.kind == events.DecisionEvent.kind,
        )
        for row in connection.execute(sa.select(schema.events).where(*these)).all():
            body = events.from_json(row.kind, row.body, row.position)
            assert isinstance(body, events.DecisionEvent)
            changed = sa.update(schema.events).where(schema.events.c.position == row.position)
            connection.execute(changed.values(body=events.to_json(self.leaving.without(body))))


def end(transaction: Transaction, marked: Marked) -> None:
    """Put tombstones in the place of the texts' own events, and forget them in the table."""
    connection = transaction.connection
    for position in marked.texts:
        here = schema.events.c.position == position, schema.events.c.kind.in_(OF_ARMS)
        row = connection.execute(sa.select(schema.events).where(*here)).first()
        if row is None:
            continue
        body = as_event(row).body
        left = (
            events.Forgotten(arms=body.arm + 1)
            if isinstance(body, events.ArmAdded)
            else events.Forgotten()
        )
        connection.execute(
            sa.update(schema.events)
            .where(*here)
            .values(kind=events.Forgotten.kind, body=events.to_json(left))
        )
    keys = {transaction.text_key(text) for text in marked.texts.values()}
    mine = sa.and_(schema.arm_texts.c.text_key.in_(keys), schema.arm_texts.c.min_users < 0)
    again = schema.arm_texts.c.state.in_(
        ("added", "held")
    )  # may become arms again; others never do
    connection.execute(sa.delete(schema.arm_texts).where(mine, again))
    connection.execute(sa.update(schema.arm_texts).where(mine).values(shown=""))
