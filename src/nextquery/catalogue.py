"""The arms as they are now, and where a query stands among them."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.logs.rules.one_query import Cleaned, QueryCleaner
from nextquery.vectors import unit_rows

_CLEANED = 16_384  # cleaned queries kept at hand


class EncodesTexts(Protocol):
    """Anything that turns texts into vectors."""

    def encode(self, texts: list[str], /) -> ArrayLike:
        """One row per text."""


class Place(NamedTuple):
    """A query as it was typed, and where it stands."""

    query: str
    text: str  #: the key under which it is an arm or may become one
    shown: str  #: how people would see it
    arm: int | None
    vector: NDArray[np.float32]
    may_become_arm: bool = False


class Catalogue:
    """A pool with its encoder, and what must not be shown; `version` counts the changes.

    >>> pool = ArmPool.from_vectors(["cats", "stocks"], [[1, 0], [0, 1]])
    >>> catalogue = Catalogue(pool)
    >>> catalogue.place("cats").arm, catalogue.block("stocks"), catalogue.blocked_arms()
    (0, 'stocks', [1])
    """

    def __init__(self, pool: ArmPool, encoder: EncodesTexts | None = None) -> None:
        self.pool = pool
        self.encoder = pool.encoder if encoder is None else encoder
        self.version = 0
        self.blocked: set[str] = set()
        self._shown: dict[int, str] = {}
        self._blocked_arms: list[int] = []
        self.clean = lru_cache(_CLEANED)(self._clean)

    def find(self, query: str) -> int | None:
        """The arm that a query stands for."""
        arm = self.pool.index_of(query)
        return self.pool.index_of(self.clean(query).text) if arm is None else arm

    def place(self, query: str) -> Place:
        """Where a query stands: an arm, or a text that the encoder gives a vector."""
        arm = self.find(query)
        if arm is not None:
            return self.place_of(arm)._replace(query=query, shown=query)
        cleaned = self.clean(query)
        if self.encoder is None or not cleaned.text:
            vector = np.zeros(self.pool.dim, np.float32)
        else:
            rows = self.encoder.encode([cleaned.text])
            vector = unit_rows(rows, what="encoded query", dim=self.pool.dim, allow_zero=True)[0]
        sound = cleaned.dropped is None and cleaned.private is None and bool(vector.any())
        may = sound and bool(cleaned.text) and cleaned.text not in self.blocked
        return Place(query, cleaned.text, cleaned.shown, None, vector, may)

    def place_of(self, arm: int) -> Place:
        """Where an arm stands."""
        text = self.pool.texts[arm]
        return Place(text, text, text, arm, self.pool.rows([arm])[0])

    def key(self, query: str) -> str:
        """The text by which a query is blocked: its arm's, or as cleaning makes it."""
        arm = self.find(query)
        text = self.clean(query).text if arm is None else self.pool.texts[arm]
        if not text:
            raise InvalidInput(
                f"nothing is left of {query[:80]!r} after cleaning, so it can be no arm and needs "
                "no block."
            )
        return text

    def shown(self, arm: int) -> str:
        """The text of an arm as people see it."""
        return self._shown.get(arm) or self.pool.shown(arm)

    def add(self, text: str, vector: NDArray[np.float32], shown: str = "") -> int:
        """A new arm; its id."""
        arm = int(self.pool.add([text], vector[None])[0])
        if shown:
            self._shown[arm] = shown
        if text in self.blocked:
            self._blocked_arms = [*self._blocked_arms, arm]
        self.version += 1
        return arm

    def remove(self, arm: int) -> None:
        """Take an arm out for ever."""
        self.pool.remove([arm])
        self.version += 1

    def block(self, query: str) -> str:
        """Never show this query again; the text that is blocked."""
        text = self.key(query)
        self.block_text(text)
        return text

    def unblock(self, query: str) -> str:
        """Take a block back; the text that was blocked."""
        text = self.key(query)
        self.unblock_text(text)
        return text

    def block_text(self, text: str) -> None:
        """Block a text that is a key already."""
        arm = self.pool.index_of(text)
        if text not in self.blocked and arm is not None:
            self._blocked_arms = [*self._blocked_arms, arm]
        self.blocked.add(text)
        self.version += 1

    def unblock_text(self, text: str) -> None:
        """Take the block of a key back."""
        arm = self.pool.index_of(text)
        self._blocked_arms = [one for one in self._blocked_arms if one != arm]
        self.blocked.discard(text)
        self.version += 1

    def blocked_arms(self) -> list[int]:
        """The arms never to be shown: always a whole list, whichever thread asks."""
        return self._blocked_arms

    def show(self, spellings: Mapping[int, str]) -> None:
        """Show these arms as said."""
        self._shown.update(spellings)

    def spellings(self) -> dict[int, str]:
        """How arms that were added are shown."""
        return dict(self._shown)

    def _clean(self, query: str) -> Cleaned:
        """A query through the rules that cleaned the log; as typed, where there was no log."""
        if self.pool.origin is not None:
            return self.pool.origin.clean(query)
        return self._cleaner(query)._replace(text=query.strip(), shown=query, dropped=None)

    @cached_property
    def _cleaner(self) -> QueryCleaner:
        return QueryCleaner()
