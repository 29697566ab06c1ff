"""One person's way from query to query, inside Algorithm 1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.ids import NO_IDS
from nextquery.checks import whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.base import Choice, Context
from nextquery.select.base import Candidates
from nextquery.select.schedule import grown

if TYPE_CHECKING:
    from nextquery.recommender import Recommender


@dataclass(frozen=True)
class Place:
    """A query where it stands: its text, its id if it is an arm, and its vector."""

    text: str
    arm: int | None
    vector: NDArray[np.float32]


class Session:
    """One person's way from query to query. Made by `Recommender.start`."""

    def __init__(self, recommender: "Recommender", id: str, anchor: Place) -> None:
        self.recommender, self.id, self._anchor = recommender, id, anchor
        self.trial = 0
        self.history: list[int] = []
        self._shown: set[int] = set()
        self._open: dict[str, list[Choice]] = {}
        self._candidates: Candidates | None = None
        self._moved = True

    @property
    def query(self) -> str:
        """The query now running."""
        return self._anchor.text

    @property
    def candidates(self) -> Candidates | None:
        """The candidate set C of the last recommendation, shown arms included."""
        return self._candidates

    @overload
    def recommend(self, m: None = None) -> Choice | None: ...
    @overload
    def recommend(self, m: int) -> list[Choice]: ...
    def recommend(self, m: int | None = None) -> Choice | list[Choice] | None:
        """The next query (None when nothing is left to recommend), or a slate of up to m."""
        if m is not None:
            whole_number(m, "m", at_least=1)
        self.trial += 1
        rec = self.recommender
        context = Context(self._anchor.vector, tuple(self.history), self.trial)
        chosen = rec.policy.rank(
            self._fresh_candidates(), context, m or 1, rec.rng, exploration=rec.exploration
        )
        slate = [
            replace(choice, id=f"{self.id}-{self.trial}-{slot}", text=rec.pool.shown(choice.arm))
            for slot, choice in enumerate(chosen, start=1)
        ]
        self._shown.update(choice.arm for choice in slate)
        self._open.update((choice.id, slate) for choice in slate)
        return slate if m is not None else next(iter(slate), None)

    def accept(self, choice: Choice) -> None:
        """The person ran this recommendation; those above it in its slate were passed over."""
        slate = self._waiting(choice)
        place = [entry.id for entry in slate].index(choice.id)
        for entry in slate[:place]:
            if entry.id in self._open:
                self.recommender.policy.update(entry, 0.0)
        self.recommender.policy.update(slate[place], 1.0)
        self._close(slate)
        arm = choice.arm
        self._move(Place(choice.text, arm, self.recommender.pool.rows([arm])[0]))

    def ignore(self, choice: Choice | Sequence[Choice], issued: str | None = None) -> None:
        """The person did not want this; `issued` is the query typed instead, if any.

        Of a whole slate only the first entry counts as a failure: nobody knows how far the others
        were read. Of one entry, that entry does, and the rest of its slate still waits.
        """
        place = None if issued is None else self.recommender.place(issued)
        if isinstance(choice, Choice):
            self._waiting(choice)
            ignored, closed = choice, [choice]
        else:
            if not choice:
                raise InvalidInput("an empty slate was shown to nobody and cannot be ignored.")
            closed = self._waiting(choice[0])
            ignored = choice[0]
        self.recommender.policy.update(ignored, 0.0)
        self._close(closed)
        if place is not None:
            self._move(place)

    def _fresh_candidates(self) -> Candidates:
        """C, grown or selected anew as the rules say, less what must not be shown."""
        rec, old = self.recommender, self._candidates
        hidden = rec.hidden(self._anchor, [*self.history, *self._shown])
        kept = NO_IDS if old is None else rec.pool.alive(old.arms)
        if self._moved and rec.reselects:
            kept = NO_IDS
        size = rec.selector.k
        if rec.schedule is not None:
            before = rec.schedule.start if old is None else len(old)
            size = grown(rec.schedule, before, self.trial)
        elif old is not None and not self._moved:
            size = None  # C stays as it is for this anchor
        if old is None or self._moved or (size is not None and size > len(kept)):
            old = self._select(hidden, size, kept)
            kept = old.arms
        fresh = old.take(np.isin(old.arms, kept) & ~np.isin(old.arms, hidden))
        if not len(fresh) and rec.schedule is None and len(old):
            old = fresh = self._select(hidden, rec.selector.k, ())  # all was shown: look further
        self._candidates, self._moved = old, False
        return fresh

    def _select(self, hidden: Sequence[int], k: int | None, keep: Iterable[int]) -> Candidates:
        rec = self.recommender
        return rec.selector.select(rec.pool, self._anchor.vector, hidden, rec.rng, k=k, keep=keep)

    def _waiting(self, choice: Choice) -> list[Choice]:
        """The slate of a choice that was not answered yet."""
        slate = self._open.get(choice.id)
        if slate is None:
            raise InvalidInput(
                f"choice {choice.id!r} is not waiting for an answer in session {self.id}: it was "
                "answered already, or comes from another session."
            )
        return slate

    def _close(self, slate: Sequence[Choice]) -> None:
        for entry in slate:
            self._open.pop(entry.id, None)

    def _move(self, place: Place) -> None:
        """The arm now playing becomes the query that was accepted, or typed."""
        if self._anchor.arm is not None:
            self.history.append(self._anchor.arm)
        self._anchor, self._moved = place, True
