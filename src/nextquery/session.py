"""One user's session with a recommender, inside Algorithm 1."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

from nextquery.arms.pool import NO_IDS
from nextquery.catalogue.catalogue import Place
from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.forecast import Likely
from nextquery.learning import OPEN, Answered, Outcome, Typed, after_feedback, entry_failed
from nextquery.loop import SessionState, Slate
from nextquery.memory import Moment
from nextquery.policies.packed import Choice
from nextquery.selection.selector import Candidates

if TYPE_CHECKING:
    from nextquery.recommender import Recommender


@dataclass(eq=False)
class _Shown:
    """A slate that was shown, the state of the session then, and its outcome so far."""

    slate: Slate
    place: Place
    state: SessionState
    time: float
    outcome: Outcome = OPEN
    success: Choice | None = None  # the candidate that came next, if it is known

    @property
    def arms(self) -> list[int]:
        return [choice.arm for choice in self.slate.choices]

    def waits(self, choice: Choice) -> bool:
        """Whether an entry has no answer yet."""
        at = self.arms.index(choice.arm)
        rewards = self.outcome.rewards
        return self.outcome.state == "open" and (at >= len(rewards) or rewards[at] is None)


class Session:
    """One user's session. Create it with `Recommender.start`.

    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> rec = nq.Recommender(pool, nq.MaxUtility(k=2), nq.LinUCB())
    >>> session = rec.start("a")
    >>> slate = session.recommend(m=2)
    >>> [choice.text for choice in slate]
    ['b', 'c']
    >>> session.accept(slate[0])  # a click: the session goes on from there
    >>> session.query, session.history
    ('b', [0])
    >>> session.ignore(session.recommend(), issued="c")  # something else was typed
    >>> session.query
    'c'
    """

    def __init__(
        self, recommender: "Recommender", id: str, anchor: Place, person: str | None = None
    ) -> None:
        self.recommender, self.id, self._anchor = recommender, id, anchor
        self.state = SessionState(person=person, session=id)
        self._shown: dict[str, _Shown] = {}
        self._empty: _Shown | None = None  # the last slate, if nothing was recommended
        self._candidates: Candidates | None = None
        self._moved, self._version = True, -1
        self._size: int | None = None

    @property
    def query(self) -> str:
        """The current query."""
        return self._anchor.query

    @property
    def segment(self) -> str:
        """The segment that the session is in."""
        return self._anchor.segment

    @property
    def trial(self) -> int:
        """The number of recommendations so far."""
        return self.state.trial

    @property
    def history(self) -> list[int]:
        """The session's earlier queries that are arms, newest last."""
        return list(self.state.history)

    @property
    def candidates(self) -> Candidates | None:
        """The arms selected for the last recommendation, including shown ones.

        Their preferences are computed when you ask for them first.
        """
        if self._candidates is not None and not self._candidates.normalised:
            place, state = self._selected_for
            self._candidates = self.recommender.select([place], [state])[0]
        return self._candidates

    @overload
    def recommend(self, m: None = None, *, at_least: float | None = None) -> Choice | None: ...
    @overload
    def recommend(self, m: int, *, at_least: float | None = None) -> list[Choice]: ...
    def recommend(
        self, m: int | None = None, *, at_least: float | None = None
    ) -> Choice | list[Choice] | None:
        """Return the next query (None when nothing is left), or with `m` a slate of up to m.

        Nothing less probable than `at_least` is recommended, by default than the recommender's
        `recommend_at_least`. Report what followed an empty slate too: ``ignore([], issued=…)``.
        """
        if m is not None:
            whole_number(m, "m", at_least=1)
        if at_least is not None:
            number(at_least, "at_least", low=0, high=1)
        rec, state = self.recommender, self.state
        if self._version not in (-1, rec.catalogue.version):  # its arm may be new or gone
            self._anchor = rec.place(self._anchor.query, self.segment)
        rng, now = rec.draws(self.id, state.trial + 1), rec.clock()
        selected, at = self._selected(), Moment(now)
        slate = rec.rank(self._anchor, state, selected, m or 1, rng, at, at_least=at_least)
        named = [
            replace(
                choice,
                id=f"{self.id}-{state.trial + 1}-{slot}",
                text=rec.text_of(choice.arm, slate.candidates),
            )
            for slot, choice in enumerate(slate.choices, start=1)
        ]
        shown = _Shown(slate._replace(choices=named), self._anchor, state, now)
        self._shown.update((choice.id, shown) for choice in named)
        self._empty = None if named else shown
        rec.asked(self._anchor, state, now)
        self.state = state.after(
            self._anchor.arm,
            shown.arms,
            rec.own_key(self._anchor),
            rec.kept(self._anchor, state, selected),
        )
        return named if m is not None else next(iter(named), None)

    def ask(self, query: str) -> None:
        """Report that the user ran another query, without feedback on the slate."""
        self._move(self.recommender.place(query, self.segment))

    def forecast(self, m: int = 5, *, returns: bool = True, at_least: float = 0.0) -> list[Likely]:
        """Return the m likeliest next queries, for prefetching. Nothing is recorded.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not: set it to what makes a query worth fetching.

        Probabilities are calibrated by `Recommender.warm_start`; without it they are the policy's
        raw estimates.
        """
        whole_number(m, "m", at_least=1)
        number(at_least, "at_least", low=0, high=1)
        rec, at = self.recommender, Moment(self.recommender.clock())
        normalise = rec.policy.needs_preferences
        selected = rec.select([self._anchor], [self.state], normalise=normalise)[0]
        likely, _ = rec.forecast(
            self._anchor, self.state, selected, m, returns=returns, at_least=at_least, at=at
        )
        return likely

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

    def ignore(self, choice: Choice | Sequence[Choice] | None, issued: str | None = None) -> None:
        """Report that the user did not run this; `issued` is the query typed instead, if any.

        A whole slate fails by the rule of `Recommender.learning`: by default only its first entry,
        since it is unknown how far the user read. If you pass some of its entries, those fail and
        the rest of the slate stays open. Pass what `recommend` returned even if it is empty or
        None: a query typed then teaches too.
        """
        rec = self.recommender
        place = None if issued is None else rec.place(issued, self.segment)
        entries = _entries(choice)
        shown = self._open(entries)
        if len(entries) < len(shown.arms):
            for slot in [_slot(self._waiting(entry), entry) for entry in entries]:
                self._set_outcome(shown, entry_failed(shown.outcome, shown.arms, slot))
        else:
            self._fail(
                shown, None if place is None else Typed(rec.typed_arm(place, self.state.person))
            )
        if place is not None:
            self._move(place)

    def expire(self, choice: Choice | Sequence[Choice] | None) -> None:
        """Report that this slate got no answer in time, so it failed. `correct` can undo that."""
        self._fail(self._open(_entries(choice)), None)

    def _fail(self, shown: _Shown, typed: Typed | None) -> None:
        """Nothing in a slate was accepted; `typed` was typed instead, if that is known."""
        learning = self.recommender.learning
        _, outcome = after_feedback(
            shown.outcome, shown.arms, accepted=None, typed=typed, learning=learning
        )
        self._set_outcome(shown, outcome)

    def _accept(self, shown: _Shown, choice: Choice) -> None:
        rec = self.recommender
        _, outcome = after_feedback(
            shown.outcome, shown.arms, accepted=choice.arm, learning=rec.learning
        )
        self._set_outcome(shown, outcome)
        alive = choice.arm >= 0 and len(rec.pool.alive([choice.arm])) > 0
        known = rec.catalogue
        place = known.place_of(choice.arm) if alive else known.place(choice.text, self.segment)
        self._move(place._replace(query=choice.text))

    def _set_outcome(self, shown: _Shown, outcome: Outcome) -> None:
        """Store a new outcome, and learn what changed with the features of the slate."""
        rec, slate = self.recommender, shown.slate
        old = Answered(shown.outcome.rewards, shown.outcome.full, shown.success)
        success = shown.success
        if outcome.full:
            success = rec.success(outcome.success, slate.choices, slate.candidates, slate.context)
        new = Answered(outcome.rewards, outcome.full, success)
        rec.model_state.learn(slate.choices, slate.failures, old, new, shown.time)
        shown.outcome, shown.success = outcome, success
        if outcome.state != "open":  # its candidates are no longer needed
            shown.slate = slate._replace(candidates=slate.candidates.take(NO_IDS))

    def _selected(self) -> Candidates:
        """Return C, selected anew unless nothing has changed since the last recommendation."""
        rec, size = self.recommender, self.recommender.size(self.state)
        same = not self._moved and (self._version, self._size) == (rec.catalogue.version, size)
        if self._candidates is None or not (same and rec.reusable):
            self._selected_for = (self._anchor, self.state)
            normalise = rec.policy.needs_preferences
            self._candidates = rec.select([self._anchor], [self.state], normalise=normalise)[0]
        self._moved, self._version, self._size = False, rec.catalogue.version, size
        return self._candidates

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
        """Return the open slate of some entries; of none, the last one if it was empty."""
        if not entries and self._empty is not None and self._empty.outcome.state == "open":
            return self._empty
        if not entries or not all(isinstance(entry, Choice) for entry in entries):
            raise InvalidInput(
                f"received {entries!r}. Pass what this session's recommend returned: a "
                "recommendation, a slate, or an empty slate that was not answered yet."
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


def _entries(choice: Choice | Sequence[Choice] | None) -> list[Choice]:
    if choice is None:
        return []
    return [choice] if isinstance(choice, Choice) else list(choice)


def _slot(shown: _Shown, choice: Choice) -> int:
    return shown.arms.index(choice.arm)
