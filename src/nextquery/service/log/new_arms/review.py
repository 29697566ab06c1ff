"""What an operator decides about arms: approve or reject a held text, remove an arm."""

from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.errors import Conflict
from nextquery.service.log.events import ArmAdded, ArmHeld
from nextquery.service.log.operators.changes import ArmRejected, ArmRemoved, By
from nextquery.service.log.schema import arm_texts
from nextquery.service.log.store import Store
from nextquery.service.log.transaction import NOTHING, Needs, Transaction


class ArmText(NamedTuple):
    """A text that became an arm, is held for review, or may never be an arm (again).

    `shown` is its spelling as a key, with its segment. `state` is added, held, rejected or removed;
    `arm` is None if it never was an arm. `owner` is who typed it when enough people had, `time` the
    last change.
    """

    shown: str
    state: str
    arm: int | None
    owner: str
    time: float


def listed_arm_texts(store: Store, limit: int) -> tuple[list[ArmText], int]:
    """Return held texts, then the others, each with the newest change first; and how many are held.

    At most `limit` texts are listed.
    """
    held = arm_texts.c.state == "held"
    columns = (arm_texts.c[name] for name in ArmText._fields)
    order = (sa.case((held, 0), else_=1), arm_texts.c.time.desc(), arm_texts.c.text_key)
    count = sa.select(sa.func.count()).select_from(arm_texts).where(held)
    known = sa.select(*columns).where(arm_texts.c.shown != "")  # not those whose text was erased
    with store.reading() as connection:
        rows = connection.execute(known.order_by(*order).limit(limit)).all()
        return [ArmText(*row) for row in rows], int(connection.execute(count).scalar_one())


@dataclass(frozen=True)
class ApproveArm:
    """Make an arm of a text that is held for review."""

    text_key: str
    held: ArmHeld
    by: By | None = None
    model: int | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the new arm and return its position in the log."""
        _check_held(transaction, self.text_key)
        arm = transaction.take_arm_id()
        _change(transaction, self.text_key, state="added", arm=arm)
        held, vector = self.held, transaction.vector(self.held.vector, self.model)
        return transaction.append(ArmAdded(arm, held.text, held.shown, vector, self.by))


@dataclass(frozen=True)
class RejectArm:
    """Never make an arm of a text that is held for review."""

    text_key: str
    text: str
    by: By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the rejection and return its position in the log."""
        _check_held(transaction, self.text_key)
        _change(transaction, self.text_key, state="rejected")
        return transaction.append(ArmRejected(self.text, self.by))


@dataclass(frozen=True)
class RemoveArm:
    """Remove an arm for good; its text never becomes an arm again."""

    arm: int
    text_key: str
    shown: str
    by: By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the removal, raise the barrier to it, and return its position in the log."""
        if _state(transaction, self.text_key) is None:
            row = sa.insert(arm_texts).values(text_key=self.text_key, shown=self.shown, owner="")
            transaction.connection.execute(row.values(state="removed", time=transaction.time))
        _change(transaction, self.text_key, state="removed", arm=self.arm)
        position = transaction.append(ArmRemoved(self.arm, self.by))
        transaction.raise_barrier()
        return position


def _check_held(transaction: Transaction, text_key: str) -> None:
    state = _state(transaction, text_key)
    if state != "held":
        raise Conflict(
            f"this query is not held for review: it is {state or 'unknown'}. GET /v1/arms lists "
            "the held queries."
        )


def _state(transaction: Transaction, text_key: str) -> str | None:
    found = sa.select(arm_texts.c.state).where(arm_texts.c.text_key == text_key)
    return transaction.connection.execute(found).scalar_one_or_none()


def _change(transaction: Transaction, text_key: str, **values: str | int) -> None:
    transaction.texts.settled.add(text_key)
    row = sa.update(arm_texts).where(arm_texts.c.text_key == text_key)
    transaction.connection.execute(row.values(**values, time=transaction.time))
