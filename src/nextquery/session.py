"""One person's way from query to query, inside Algorithm 1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np

from nextquery.arms.ids import NO_IDS
from nextquery.catalogue import Place
from nextquery.checks import whole_number
from nextquery.errors import InvalidInput
from nextquery.loop import Likely, Slate, Visit
from nextquery.outcomes import OPEN, Outcome, after_feedback, entry_failed
from nextquery.policies.base import Choice
from nextquery.select.base import Candidates
from nextquery.select.schedule import grown

if TYPE_CHECKING:
    from nextquery.recommender import Recommender


@dataclass(eq=False)
class _Shown:
    """A slate that was shown, what was known then, and what has become of it."""

    slate: Slate
    place: Place
    visit: Visit
    outcome: Outcome = OPEN
    typed: Choice | None = None  # what was learnt as typed instead

    @property
    def arms(self) -> list[int]:
        return [choice.arm for choice in self.slate.choices]

    def waits(self, choice: Choice) -> bool:
        """Whether nothing is known of an entry yet."""
        at = self.arms.index(choice.arm)
        rewards = self.outcome.rewards
        return self.outcome.state == "open" and (at >= len(rewards) or rewards[at] is None)


class Session:
    """One person's way from query to query. Made by `Recommender.start`."""

    def __init__(self, recommender: "Recommender", id: str, anchor: Place) -> None:
        self.recommender, self.id, self._anchor = recommender, id, anchor
        self.visit = Visit()
        self._shown: dict[str, _Shown] = {}
        self._candidates: Candidates | None = None
        self._moved, self._version = True, -1

    @property
    def query(self) -> str:
        """The query now running."""
        return self._anchor.query

    @property
    def trial(self) -> int:
        """How many recommendations there were."""
        return self.visit.trial

    @property
    def history(self) -> list[int]:
        """The session's earlier queries that are arms, the newest last."""
        return list(self.visit.history)

    @property
    def candidates(self) -> Candidates | None:
        """The arms selected for the last recommendation, shown ones included."""
        return self._candidates

    @overload
    def recommend(self, m: None = None) -> Choice | None: ...
    @overload
    def recommend(self, m: int) -> list[Choice]: ...
    def recommend(self, m: int | None = None) -> Choice | list[Choice] | None:
        """The next query (None when nothing is left to recommend), or a slate of up to m."""
        if m is not None:
            whole_number(m, "m", at_least=1)
        rec, visit = self.recommender, self.visit
        if self._version not in (-1, rec.catalogue.version):  # it may have become an arm, or none
            self._anchor = rec.place(self._anchor.query)
        rng = rec.draws(self.id, visit.trial + 1)
        slate = rec.rank(self._anchor, visit, self._selected(rng), m or 1, rng)
        named = [
            replace(
                choice,
                id=f"{self.id}-{visit.trial + 1}-{slot}",
                text=rec.catalogue.shown(choice.arm),
            )
            for slot, choice in enumerate(slate.choices, start=1)
        ]
        shown = _Shown(slate._replace(choices=named), self._anchor, visit)
        self._shown.update((choice.id, shown) for choice in named)
        rec.learnt.asked(self._anchor.arm, visit.history)
        self.visit = visit.after(self._anchor.arm, shown.arms)
        return named if m is not None else next(iter(named), None)

    def ask(self, query: str) -> None:
        """The person ran another query, and said nothing of what was shown."""
        self._move(self.recommender.place(query))

    def forecast(self, m: int = 5) -> list[Likely]:
        """The m likeliest next queries, for prefetching; nothing is recorded.

        Probabilities are calibrated by `Recommender.warm_start`; without it they are the policy's
        own estimates.
        """
        whole_number(m, "m", at_least=1)
        loop = self.recommender
        return loop.forecast(self._anchor, self.visit, loop.select([self._anchor])[0], m)[0]

    def accept(self, choice: Choice) -> None:
        """The person ran this recommendation; those above it in its slate were passed over."""
        self._take(self._waiting(choice), choice)

    def correct(self, choice: Choice) -> None:
        """The person ran this recommendation after its slate was taken for ignored or expired."""
        shown = self._of(choice)
        ignored = shown.outcome.rewards[_slot(shown, choice) :][:1] == [0]
        if shown.outcome.state != "failed" and not (ignored and shown.outcome.state == "open"):
            raise InvalidInput(
                f"choice {choice.id!r} was not ignored, so there is nothing to correct; its slate "
                f"is {shown.outcome.state}. Use accept for a slate that is open."
            )
        self._take(shown, choice)

    def ignore(self, choice: Choice | Sequence[Choice], issued: str | None = None) -> None:
        """The person did not want this; `issued` is the query typed instead, if any.

        A whole slate fails by the rule of `Recommender.learning`: its first entry by default, since
        nobody knows how far the others were read. Of some of its entries, these fail, and the rest
        of the slate still waits.
        """
        rec = self.recommender
        place = None if issued is None else rec.place(issued)
        entries = [choice] if isinstance(choice, Choice) else list(choice)
        shown = self._open(entries)
        if len(entries) < len(shown.arms):
            for slot in [_slot(self._waiting(entry), entry) for entry in entries]:
                self._become(shown, entry_failed(shown.outcome, shown.arms, slot))
        else:
            self._fail(shown, None if place is None else place.arm)
        if place is not None:
            self._move(place)

    def expire(self, choice: Choice | Sequence[Choice]) -> None:
        """Nobody answered this slate in time: it failed. A click may still `correct` that."""
        entries = [choice] if isinstance(choice, Choice) else list(choice)
        self._fail(self._open(entries), None)

    def _fail(self, shown: _Shown, arm: int | None) -> None:
        """Nothing of a slate was accepted; `arm` was typed instead."""
        rec = self.recommender
        _, outcome, typed = after_feedback(
            shown.outcome, shown.arms, accepted=None, typed=arm, learning=rec.learning
        )
        real = self._typed(shown, arm) if typed and arm is not None else None
        self._become(shown, outcome)
        if real is not None:
            rec.policy.update(real, 1.0)
            shown.typed = real

    def _typed(self, shown: _Shown, arm: int) -> Choice | None:
        """The query typed instead of a slate, as if it had been recommended there."""
        loop = self.recommender
        offered = loop.offered(arm, shown.slate)
        if offered is not None:
            return offered
        selected = loop.select([shown.place])[0]
        return loop.as_choice(arm, shown.place, shown.visit, selected)

    def _take(self, shown: _Shown, choice: Choice) -> None:
        rec = self.recommender
        _, outcome, _ = after_feedback(
            shown.outcome, shown.arms, accepted=choice.arm, learning=rec.learning
        )
        self._become(shown, outcome)
        if shown.typed is not None:  # it was not typed instead, after all
            rec.policy.correct(shown.typed, 1.0, None)
            shown.typed = None
        alive = len(rec.pool.alive([choice.arm])) > 0
        place = rec.catalogue.place_of(choice.arm) if alive else rec.catalogue.place(choice.text)
        self._move(place._replace(query=choice.text))

    def _become(self, shown: _Shown, outcome: Outcome) -> None:
        """Learn what a new outcome changes."""
        old, shown.outcome = shown.outcome, outcome
        self.recommender.learnt.correct(shown.slate.choices, old.rewards, outcome.rewards)
        if outcome.state != "open":  # what it was chosen from is not asked for any more
            shown.slate = shown.slate._replace(candidates=shown.slate.candidates.take(NO_IDS))

    def _selected(self, rng: np.random.Generator) -> Candidates:
        """C, grown or selected anew as the rules say."""
        rec = self.recommender
        if rec.schedule is not None or not rec.reselects:
            self._candidates = self._kept_and_grown(rng)
        elif self._moved or self._version != rec.catalogue.version:
            self._candidates = rec.select([self._anchor], rng)[0]
        assert self._candidates is not None
        self._moved, self._version = False, rec.catalogue.version
        return self._candidates

    def _kept_and_grown(self, rng: np.random.Generator) -> Candidates:
        """Algorithm 2: arms once in C stay in it, and C grows with the trials."""
        rec, old = self.recommender, self._candidates
        seen = () if rec.repeat else (*self.visit.history, *self.visit.seen)
        own = () if self._anchor.arm is None else (self._anchor.arm,)
        hidden = sorted({*rec.catalogue.blocked_arms(), *seen, *own})
        kept = NO_IDS if old is None else rec.pool.alive(old.arms)
        if self._moved and rec.reselects:
            kept = NO_IDS
        size = rec.selector.k
        if rec.schedule is not None:
            before = rec.schedule.start if old is None else len(old)
            size = grown(rec.schedule, before, self.visit.trial + 1)
        elif old is not None and not self._moved:
            size = None  # C stays as it is for this anchor
        if old is None or self._moved or (size is not None and size > len(kept)):
            return self._select(hidden, size, kept, rng)
        return old.take(np.isin(old.arms, kept))

    def _select(
        self, hidden: Sequence[int], k: int | None, keep: Iterable[int], rng: np.random.Generator
    ) -> Candidates:
        rec = self.recommender
        return rec.selector.select(rec.pool, self._anchor.vector, hidden, rng, k=k, keep=keep)

    def _of(self, choice: Choice) -> _Shown:
        """The slate of a choice of this session."""
        shown = self._shown.get(choice.id) if isinstance(choice, Choice) else None
        if shown is None or choice.arm not in shown.arms:
            raise InvalidInput(
                f"{getattr(choice, 'id', choice)!r} was not recommended in session {self.id}. Give "
                "what this session's recommend returned."
            )
        return shown

    def _open(self, entries: Sequence[Choice]) -> _Shown:
        """The slate of some entries, which still waits for an answer."""
        if not entries or not all(isinstance(entry, Choice) for entry in entries):
            raise InvalidInput(
                "give a recommendation of this session, or a slate of them (an empty slate was "
                f"shown to nobody); received {entries!r}."
            )
        shown = self._of(entries[0])
        return shown if shown.outcome.state == "open" else self._waiting(entries[0])

    def _waiting(self, choice: Choice) -> _Shown:
        """The slate of a choice that was not answered yet."""
        shown = self._of(choice)
        if not shown.waits(choice):
            raise InvalidInput(
                f"choice {choice.id!r} is not waiting for an answer in session {self.id}: it was "
                "answered already."
            )
        return shown

    def _move(self, place: Place) -> None:
        """The arm now playing becomes the query that was accepted, or typed."""
        self._anchor, self._moved = place, True


def _slot(shown: _Shown, choice: Choice) -> int:
    return shown.arms.index(choice.arm)
