"""What operators curate: queries that may be suggested although nobody asked them, and pins."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import sqlalchemy as sa

from nextquery.errors import Conflict
from nextquery.segments import key_of, segment_of, text_of
from nextquery.service.log.new_arms.parts import parts
from nextquery.service.log.operators.changes import By
from nextquery.service.log.schema import arm_texts

if TYPE_CHECKING:
    from nextquery.service.log.transaction import Needs, Transaction


@dataclass(frozen=True)
class Pinned:
    """A text is shown at the top after a query (its key), or with "" after every query."""

    kind: ClassVar[str] = "pinned"
    text: str
    after: str = ""
    by: By | None = None


@dataclass(frozen=True)
class Unpinned:
    """A pin was removed."""

    kind: ClassVar[str] = "unpinned"
    text: str
    after: str = ""
    by: By | None = None


class Curated(NamedTuple):
    """A query to make an arm: the key of its text in the store, and the fields of `ArmAdded`."""

    text_key: str
    text: str
    shown: str
    vector: str


@dataclass(frozen=True)
class Curate:
    """Make arms of queries that operators chose.

    Those that are arms already stay as they are, but need no users any more: they do not end when
    somebody who typed them is forgotten.
    """

    queries: Sequence[Curated]
    by: By
    model: int | None = None  #: position of the model when the vectors were computed
    known: Collection[str] = ()  #: the keys in the store of those that are arms

    def needs(self) -> "Needs":
        """Nothing."""
        from nextquery.service.log.transaction import NOTHING

        return NOTHING

    def write(self, transaction: "Transaction") -> int:
        """Append the new arms, raise the barrier to them, and return how many there are."""
        from nextquery.service.log.events import ArmAdded

        states = [_state(transaction, query.text_key) for query in self.queries]
        for query, state in zip(self.queries, states, strict=True):
            if state in ("rejected", "removed"):
                raise Conflict(
                    f"{text_of(query.text)[:80]!r} was {state} for good, so it cannot be curated. "
                    "Leave it out of the list. Nothing was written."
                )
        _need_no_users(transaction, self.known)
        added = 0
        for query, state in zip(self.queries, states, strict=True):
            if state == "added":
                _need_no_users(transaction, [query.text_key])
                continue
            arm = transaction.take_arm_id()
            vector = transaction.vector(query.vector, self.model)
            transaction.append(ArmAdded(arm, query.text, query.shown, vector, self.by))
            _keep(transaction, query, arm, known=state is not None)
            added += 1
        if added:
            transaction.raise_barrier()
        return added


def _state(transaction: "Transaction", text_key: str) -> str | None:
    found = sa.select(arm_texts.c.state).where(arm_texts.c.text_key == text_key)
    return transaction.connection.execute(found).scalar_one_or_none()


def _need_no_users(transaction: "Transaction", text_keys: Collection[str]) -> None:
    """Keep these arms whoever is forgotten, unless an erasure is ending them just now."""
    for part in parts(text_keys):
        these = arm_texts.c.text_key.in_(part), arm_texts.c.min_users > 0
        transaction.connection.execute(sa.update(arm_texts).where(*these).values(min_users=None))


def _keep(transaction: "Transaction", query: Curated, arm: int, *, known: bool) -> None:
    """Remember in `arm_texts` that the text is an arm, so that it never becomes another one."""
    transaction.texts.settle(query.text_key)
    values = {"state": "added", "arm": arm, "time": transaction.time, "min_users": None}
    if known:
        held = sa.update(arm_texts).where(arm_texts.c.text_key == query.text_key)
        transaction.connection.execute(held.values(**values))
        return
    shown = key_of(segment_of(query.text), query.shown)
    row = {"text_key": query.text_key, "shown": shown, "owner": "", **values}
    transaction.connection.execute(sa.insert(arm_texts).values(**row))
