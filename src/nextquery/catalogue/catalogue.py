"""The current arms, and how a query maps to them."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Ids
from nextquery.arms.origin import arm_in_other_form, arm_of, other_forms
from nextquery.catalogue.rules import (
    MIN_HITS,
    Exclusions,
    Pins,
    TextPattern,
    check_pattern,
    hidden_wildcards,
    shown_wildcards,
)
from nextquery.catalogue.segments import Segmented
from nextquery.errors import InvalidInput
from nextquery.logs.private_text import Cleaned, QueryCleaner
from nextquery.segments import key_of, segment_of, text_of
from nextquery.vectors import unit_rows

_COMMON = 1_000  # arms in `most_common`
_CLEANED = 16_384  # cleaned queries kept in the cache
_ENCODED = 4096  # encoded queries kept in the cache
_OWN = 200_000  # people's own texts kept in the cache


class EncodesTexts(Protocol):
    """Any object that encodes texts as vectors."""

    def encode(self, texts: list[str], /) -> ArrayLike:
        """Return one row per text."""


class Place(NamedTuple):
    """A query as it was typed, with its arm (if any) and its vector."""

    query: str
    text: str  #: the key of its arm, or of the arm it may become: segment and cleaned text
    shown: str  #: the spelling shown to users
    arm: int | None
    vector: NDArray[np.float32]
    may_become_arm: bool = False
    segment: str = ""


class Catalogue:
    """A pool with its encoder and what must not be shown of it; `version` counts changes.

    >>> pool = ArmPool.from_vectors(["cats", "stocks"], [[1, 0], [0, 1]])
    >>> catalogue = Catalogue(pool)
    >>> catalogue.place("cats").arm, catalogue.block("stocks"), catalogue.excluded.arms
    (0, 'stocks', array([1]))
    """

    def __init__(
        self,
        pool: ArmPool,
        encoder: EncodesTexts | None = None,
        *,
        min_letters: int = 0,
        min_hits: int = MIN_HITS,
    ) -> None:
        self.pool = pool
        self.encoder = pool.encoder if encoder is None else encoder
        self.version = 0
        self.segmented = Segmented(pool)
        self.excluded = Exclusions(
            pool, min_letters=min_letters, min_hits=min_hits, segmented=self.segmented
        )
        self.pins = Pins()
        self._shown: dict[int, str] = {}
        self._own_ids: dict[str, int | None] = {}
        self._rows = pool.rows_in_all  # when the cache above was new
        self.clean = lru_cache(_CLEANED)(self._clean)
        self.encode = lru_cache(_ENCODED)(self._encode)

    def find(self, query: str, segment: str = "") -> int | None:
        """Return the arm of a query, or None; also of a query in another form (see `forms`).

        >>> catalogue = Catalogue(ArmPool.from_vectors(["black hole"], [[1, 0]]))
        >>> catalogue.find("black holes"), catalogue.find_exactly("black holes")
        (0, None)
        """
        arm = self.find_exactly(query, segment)
        if arm is not None:  # cleaning takes milliseconds, and most queries need none
            return arm
        return arm_in_other_form(self.pool, key_of(segment, self.clean(query).text))

    def find_exactly(self, query: str, segment: str = "") -> int | None:
        """Return the arm of a query by its own text, or None: what operators act on."""
        return arm_of(self.pool, query, lambda text: self.clean(text).text, segment)

    def place(self, query: str, segment: str = "") -> Place:
        """Look a query up: as an arm of its segment, or else with the encoder's vector."""
        arm = self.find(query, segment)
        if arm is not None:
            return self.place_of(arm)._replace(query=query, shown=query)
        cleaned = self.clean(query)
        if self.encoder is None or not cleaned.text:
            vector = np.zeros(self.pool.dim, np.float32)
        else:
            vector = self.encode(cleaned.text)
        usable = cleaned.dropped is None and cleaned.private is None and bool(vector.any())
        key = key_of(segment, cleaned.text) if cleaned.text else ""
        may_become_arm = usable and bool(key) and not self._is_barred(key_of(segment, query), key)
        return Place(query, key, cleaned.shown, None, vector, may_become_arm, segment)

    def own_id(self, text: str, segment: str = "") -> int | None:
        """Return what a remembered query is now: its arm, -1 if it is none, None if it is hidden.

        `text` is its key. In another segment it is hidden.

        >>> catalogue = Catalogue(ArmPool.from_vectors(["cats"], [[1, 0]]))
        >>> catalogue.own_id("cats"), catalogue.own_id("my cat"), catalogue.block("my cat")
        (0, -1, 'my cat')
        >>> catalogue.own_id("my cat") is None
        True
        """
        if segment_of(text) != segment:
            return None
        if self._rows != self.pool.rows_in_all or len(self._own_ids) > _OWN:
            self._changed()
        known = self._own_ids  # replaced by changes, so that nothing older gets into it
        if text not in known:
            known[text] = None if text in self.excluded else self._now(text)
        return known[text]

    def _now(self, text: str) -> int | None:
        """Return the arm of a text or of another form of it, -1 if it is none, None if barred."""
        if self._was_arm(text):
            return self.pool.index_of(text)
        arm = arm_in_other_form(self.pool, text)
        return arm if arm is not None else None if self._is_barred(text, text) else -1

    def _changed(self) -> None:
        """Forget what remembered queries are."""
        self._own_ids, self._rows = {}, self.pool.rows_in_all

    def _is_barred(self, query: str, text: str) -> bool:
        """Whether a query (its key, as typed and cleaned) that is no arm may not become one: it,
        or another form of it, is excluded, or was an arm and was removed."""
        forms = other_forms(self.pool, text)
        known = self.pool.texts.known([query, text, *forms])
        return self.excluded.bars(text, forms) or bool(known)

    def _was_arm(self, text: str) -> bool:
        """Whether a text is an arm or was one: a removed arm stays removed."""
        return bool(self.pool.texts.ids_of(text))

    def _encode(self, text: str) -> NDArray[np.float32]:
        assert self.encoder is not None
        rows = self.encoder.encode([text])
        matrix = unit_rows(rows, what="encoded query", dim=self.pool.dim, allow_zero=True)
        vector: NDArray[np.float32] = matrix[0]
        vector.flags.writeable = False  # it is cached
        return vector

    def place_of(self, arm: int) -> Place:
        """Return the place of an arm."""
        key = self.pool.texts[arm]
        text, segment = text_of(key), segment_of(key)
        return Place(text, key, text, arm, self.pool.row(arm), segment=segment)

    def key(self, query: str) -> str:
        """Return the text under which a query is blocked: its arm's text, or its cleaned text."""
        found = (self.find_exactly(query, segment) for segment in self.segmented.names)
        arm = next((arm for arm in found if arm is not None), None)
        text = self.clean(query).text if arm is None else text_of(self.pool.texts[arm])
        if not text:
            raise InvalidInput(
                f"nothing is left of {query[:80]!r} after cleaning, so it cannot become an arm "
                "and does not need to be blocked."
            )
        return text

    def shown(self, arm: int) -> str:
        """Return the text of an arm as shown to users."""
        return self._shown.get(arm) or self.pool.shown(arm)

    def add(self, text: str, vector: NDArray[np.float32], shown: str = "") -> int:
        """Add an arm by its key and return its id."""
        arm = int(self.pool.add([text], vector[None])[0])
        self.segmented.added(arm, text)
        if shown:
            self._shown[arm] = shown
        self.excluded.added(arm, text)
        self._changed()
        self.version += 1
        return arm

    def remove(self, arm: int) -> None:
        """Remove an arm permanently."""
        self.pool.remove([arm])
        self._changed()
        self.version += 1

    def block(self, query: str) -> str:
        """Never show this query again. Returns the blocked text."""
        text = self.key(query)
        self.block_text(text)
        return text

    def unblock(self, query: str) -> str:
        """Allow a blocked query again. Returns the text that was blocked."""
        text = self.key(query)
        self.unblock_text(text)
        return text

    def block_text(self, text: str) -> None:
        """Block a text that is already a key."""
        self.excluded.block(text)
        self._changed()
        self.version += 1

    def unblock_text(self, text: str) -> None:
        """Unblock a text that is already a key."""
        self.excluded.unblock(text)
        self._changed()
        self.version += 1

    def pattern(self, text: str) -> TextPattern:
        """Return a pattern (see `TextPattern`), cleaned like the queries of the log.

        >>> Catalogue(ArmPool.from_vectors(["a"], [[1, 0]])).pattern("Free *Spin*").text
        'free *spin*'
        """
        cleaned = self._clean(hidden_wildcards(check_pattern(text))).text
        return TextPattern.of(shown_wildcards(cleaned))

    def block_pattern(self, text: str) -> str:
        """Never show a query that matches this pattern again. Returns the cleaned pattern."""
        pattern = self.pattern(text)
        self.excluded.block_pattern(pattern)
        self._changed()
        self.version += 1
        return pattern.text

    def unblock_pattern(self, text: str) -> str:
        """Allow what a pattern matches again. Returns the cleaned pattern."""
        pattern = self.pattern(text)
        self.excluded.unblock_pattern(pattern)
        self._changed()
        self.version += 1
        return pattern.text

    def pin(self, query: str, after: str | None = None, segment: str = "") -> None:
        """Always show an arm at the top after a query, or after every query of its segment."""
        arm = self.find(query, segment)
        if arm is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm, so it cannot be pinned. Add it first."
            )
        key = "" if after is None else self.place(after, segment).text
        self.pins.pin(self.pool.texts[arm], key)

    def unpin(self, query: str, after: str | None = None, segment: str = "") -> None:
        """Remove a pin."""
        key = "" if after is None else self.place(after, segment).text
        self.pins.unpin(self.place(query, segment).text, key)

    def pinned(self, place: Place) -> list[int]:
        """Return the arms that are pinned after a query; a block wins over a pin.

        >>> catalogue = Catalogue(ArmPool.from_vectors(["tea", "pots"], [[1, 0], [0, 1]]))
        >>> catalogue.pin("pots", after="tea"), catalogue.pinned(catalogue.place("tea"))
        (None, [1])
        >>> catalogue.block("pots"), catalogue.pinned(catalogue.place("tea"))
        ('pots', [])
        """
        if not len(self.pins):
            return []
        found = map(self.pool.index_of, self.pins.after(place.text, place.segment))
        arms = np.array([arm for arm in found if arm is not None and arm != place.arm], np.int64)
        shown: list[int] = arms[~np.isin(arms, self.hidden_arms())].tolist()
        return shown

    @cached_property
    def most_common(self) -> NDArray[np.int64]:
        """The arms of the most sessions of the log, at most 1,000; computed once.

        Without a log, the first arms. Some may have been removed since.
        """
        origin = self.pool.origin
        if origin is None:
            return np.arange(min(self.pool.rows_in_all, _COMMON), dtype=np.int64)
        order: NDArray[np.int64] = np.argsort(-origin.session_counts, kind="stable")[:_COMMON]
        return order

    def common_in(self, segment: str) -> NDArray[np.int64]:
        """Return `most_common` of one segment."""
        if not self.segmented:
            return self.most_common if not segment else np.empty(0, np.int64)
        arms, origin = self.segmented.arms(segment), self.pool.origin
        if origin is None:
            return arms[:_COMMON]
        known = arms[arms < len(origin.session_counts)]
        counts = np.asarray(origin.session_counts)[known]
        return known[np.argsort(-counts, kind="stable")[:_COMMON]]

    def hidden_arms(self) -> Ids:
        """Return the arms that are not shown. Thread-safe: the array is never changed in place."""
        return self.excluded.arms

    def show(self, spellings: Mapping[int, str]) -> None:
        """Set the spellings shown for these arms."""
        self._shown.update(spellings)

    def spellings(self) -> dict[int, str]:
        """Return the spellings of arms that were added."""
        return dict(self._shown)

    def _clean(self, query: str) -> Cleaned:
        """Clean a query by the rules of the log; without a log, only strip it."""
        if self.pool.origin is not None:
            return self.pool.origin.clean(query)
        return self._cleaner(query)._replace(text=query.strip(), shown=query, dropped=None)

    @cached_property
    def _cleaner(self) -> QueryCleaner:
        return QueryCleaner()
