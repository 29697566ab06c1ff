"""One user's session with a recommender, inside Algorithm 1."""

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
    """A slate that was shown, the state of the session then, and its outcome so far."""

    slate: Slate
    place: Place
    visit: Visit
    outcome: Outcome = OPEN
    typed: Choice | None = None  # the typed query learnt as a success

    @property
    def arms(self) -> list[int]:
        return [choice.arm for choice in self.slate.choices]

    def waits(self, choice: Choice) -> bool:
        """Whether an entry has no answer yet."""
        at = self.arms.index(choice.arm)
        rewards = self.outcome.rewards
        return self.outcome.state == "open" and (at >= len(rewards) or rewards[at] is None)


class Session:
    """One user's session. Create it with `Recommender.start`."""

    def __init__(self, recommender: "Recommender", id: str, anchor: Place) -> None:
        self.recommender, self.id, self._anchor = recommender, id, anchor
        self.visit = Visit()
        self._shown: dict[str, _Shown] = {}
        self._candidates: Candidates | None = None
        self._moved, self._version = True, -1

    @property
    def query(self) -> str:
        """The current query."""
        return self._anchor.query

    @property
    def trial(self) -> int:
        """The number of recommendations so far."""
        return self.visit.trial

    @property
    def history(self) -> list[int]:
        """The session's earlier queries that are arms, newest last."""
        return list(self.visit.history)

    @property
    def candidates(self) -> Candidates | None:
        """The arms selected for the last recommendation, including shown ones."""
        return self._candidates

    @overload
    def recommend(self, m: None = None) -> Choice | None: ...
    @overload
    def recommend(self, m: int) -> list[Choice]: ...
    def recommend(self, m: int | None = None) -> Choice | list[Choice] | None:
        """Return the next query (None when nothing is left), or with `m` a slate of up to m."""
        if m is not None:
            whole_number(m, "m", at_least=1)
        rec, visit = self.recommender, self.visit
        if self._version not in (-1, rec.catalogue.version):  # its arm may be new or gone
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
        """Report that the user ran another query, without feedback on the slate."""
        self._move(self.recommender.place(query))

    def forecast(self, m: int = 5) -> list[Likely]:
        """Return the m likeliest next queries, for prefetching. Nothing is recorded.

        Probabilities are calibrated by `Recommender.warm_start`; without it they are the policy's
        raw estimates.
        """
        whole_number(m, "m", at_least=1)
        loop = self.recommender
        return loop.forecast(self._anchor, self.visit, loop.select([self._anchor])[0], m)[0]

    def accept(self, choice: Choice) -> None:
        """Report that the user ran this recommendation. Entries above it in its slate failed."""
        self._accept(self._waiting(choice), choice)

    def correct(self, choice: Choice) -> None:
        """Report that the user ran this recommendation after it was ignored or expired."""
        shown = self._of(choice)
        ignored = shown.outcome.rewards[_slot(shown, choice) :][:1] == [0]
        if shown.outcome.state != "failed" and not (ignored and shown.outcome.state == "open"):
            raise InvalidInput(
                f"choice {choice.id!r} was not ignored, so there is nothing to correct; its slate "
                f"is {shown.outcome.state}. For an open slate, use accept."
            )
        self._accept(shown, choice)

    def ignore(self, choice: Choice | Sequence[Choice], issued: str | None = None) -> None:
        """Report that the user did not run this; `issued` is the query typed instead, if any.

        A whole slate fails by the rule of `Recommender.learning`: by default only its first entry,
        since it is unknown how far the user read. If you pass some of its entries, those fail and
        the rest of the slate stays open.
        """
        rec = self.recommender
        place = None if issued is None else rec.place(issued)
        entries = [choice] if isinstance(choice, Choice) else list(choice)
        shown = self._open(entries)
        if len(entries) < len(shown.arms):
            for slot in [_slot(self._waiting(entry), entry) for entry in entries]:
                self._set_outcome(shown, entry_failed(shown.outcome, shown.arms, slot))
        else:
            self._fail(shown, None if place is None else place.arm)
        if place is not None:
            self._move(place)

    def expire(self, choice: Choice | Sequence[Choice]) -> None:
        """Report that this slate got no answer in time, so it failed. `correct` can undo that."""
        entries = [choice] if isinstance(choice, Choice) else list(choice)
        self._fail(self._open(entries), None)

    def _fail(self, shown: _Shown, arm: int | None) -> None:
        """Nothing in a slate was accepted; `arm` was typed instead."""
        rec = self.recommender
        _, outcome, typed = after_feedback(
            shown.outcome, shown.arms, accepted=None, typed=arm, learning=rec.learning
        )
        success = self._typed(shown, arm) if typed and arm is not None else None
        self._set_outcome(shown, outcome)
        if success is not None:
            rec.policy.update(success, 1.0)
            shown.typed = success

    def _typed(self, shown: _Shown, arm: int) -> Choice | None:
        """Return the query typed instead of a slate, as if it had been recommended there."""
        loop = self.recommender
        offered = loop.offered(arm, shown.slate)
        if offered is not None:
            return offered
        selected = loop.select([shown.place])[0]
        return loop.as_choice(arm, shown.place, shown.visit, selected)

    def _accept(self, shown: _Shown, choice: Choice) -> None:
        rec = self.recommender
        _, outcome, _ = after_feedback(
            shown.outcome, shown.arms, accepted=choice.arm, learning=rec.learning
        )
        self._set_outcome(shown, outcome)
        if shown.typed is not None:  # undo: nothing was typed instead
            rec.policy.correct(shown.typed, 1.0, None)
            shown.typed = None
        alive = len(rec.pool.alive([choice.arm])) > 0
        place = rec.catalogue.place_of(choice.arm) if alive else rec.catalogue.place(choice.text)
        self._move(place._replace(query=choice.text))

    def _set_outcome(self, shown: _Shown, outcome: Outcome) -> None:
        """Store a new outcome and learn the rewards that changed."""
        old, shown.outcome = shown.outcome, outcome
        self.recommender.learnt.correct(shown.slate.choices, old.rewards, outcome.rewards)
        if outcome.state != "open":  # its candidates are no longer needed
            shown.slate = shown.slate._replace(candidates=shown.slate.candidates.take(NO_IDS))

    def _selected(self, rng: np.random.Generator) -> Candidates:
        """Return C: kept, grown or newly selected."""
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
            size = None  # C does not change for this anchor
        if old is None or self._moved or (size is not None and size > len(kept)):
            return self._select(hidden, size, kept, rng)
        return old.take(np.isin(old.arms, kept))

    def _select(
        self, hidden: Sequence[int], k: int | None, keep: Iterable[int], rng: np.random.Generator
    ) -> Candidates:
        rec = self.recommender
        return rec.selector.select(rec.pool, self._anchor.vector, hidden, rng, k=k, keep=keep)

    def _of(self, choice: Choice) -> _Shown:
        """Return the slate of a choice of this session."""
        shown = self._shown.get(choice.id) if isinstance(choice, Choice) else None
        if shown is None or choice.arm not in shown.arms:
            raise InvalidInput(
                f"{getattr(choice, 'id', choice)!r} was not recommended in session {self.id}. Pass "
                "what this session's recommend returned."
            )
        return shown

    def _open(self, entries: Sequence[Choice]) -> _Shown:
        """Return the open slate of some entries."""
        if not entries or not all(isinstance(entry, Choice) for entry in entries):
            raise InvalidInput(
                f"received {entries!r}. Pass a recommendation of this session, or a non-empty "
                "slate of them."
            )
        shown = self._of(entries[0])
        return shown if shown.outcome.state == "open" else self._waiting(entries[0])

    def _waiting(self, choice: Choice) -> _Shown:
        """Return the slate of a choice that has no answer yet."""
        shown = self._of(choice)
        if not shown.waits(choice):
            raise InvalidInput(
                f"choice {choice.id!r} in session {self.id} was already answered. To change an "
                "ignored choice into an accepted one, use correct."
            )
        return shown

    def _move(self, place: Place) -> None:
        """Set the current query to the one that was accepted or typed."""
        self._anchor, self._moved = place, True


def _slot(shown: _Shown, choice: Choice) -> int:
    return shown.arms.index(choice.arm)
