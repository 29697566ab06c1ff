"""One round of Algorithm 1: from a query to candidates, then to a slate or a forecast.

Candidates are the arms that the selector selects and those that the memories recall. They are
selected for each query, or kept during the session and grown (Algorithm 2).

Library sessions, replay and the service all use this code, so the same history gives the same
answer in each.
"""

import hashlib
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nextquery.arms.kernels import Ids
from nextquery.arms.pool import NO_IDS, ArmPool, among
from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.errors import InvalidInput
from nextquery.forecast import Likely
from nextquery.learning import ModelState
from nextquery.memory import NOW, Key, Memory, Moment, with_memory, without
from nextquery.policies.packed import Choice, Context
from nextquery.policies.policy import Policy
from nextquery.segments import text_of
from nextquery.selection.duplicates import DuplicateKeys, best_first
from nextquery.selection.schedule import Schedule, Sizes
from nextquery.selection.selector import Candidates, Selector

HISTORY, SEEN = 20, 200  # how many of its newest queries and shown arms a session remembers


class SessionState(NamedTuple):
    """The state of a session.

    `history` contains its earlier queries that are arms, `seen` the arms it was shown, `trial` the
    number of recommendations so far. `person` is whose it is, if that person has a past of their
    own, and `previous` the query before the current one, whether it is an arm or not. `session` is
    its id, on which random draws depend, and `kept` the arms that stay in its candidate set.
    """

    history: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    trial: int = 0
    person: str | None = None
    previous: Key | None = None
    session: str = ""
    kept: tuple[int, ...] = ()

    def after(
        self,
        arm: int | None,
        shown: Iterable[int],
        key: Key | None = None,
        kept: tuple[int, ...] = (),
    ) -> "SessionState":
        """Return the session after a recommendation for a query (its arm, or None).

        `key` is the query itself, also if it is not an arm, and `kept` is that of its candidates.

        >>> SessionState().after(7, [8, 9]).after(7, [])[:3]
        ((7,), (8, 9), 2)
        """
        history = tuple(self.with_anchor(arm))[-HISTORY:]
        seen = (*self.seen, *shown)[-SEEN:]
        previous = self.previous if arm is None and key is None else key if arm is None else arm
        return SessionState(
            history, seen, self.trial + 1, self.person, previous, self.session, tuple(kept)
        )

    def with_anchor(self, arm: int | None) -> list[int]:
        """Return the session's arms, with the current query last if it is an arm."""
        if arm is None or self.history[-1:] == (arm,):
            return list(self.history)
        return [*self.history, arm]


_RANKING, _SELECTING, _FURTHER = range(3)  # what numbers are drawn for


class Selecting:
    """The part of the loop that selects candidates, for many sessions in one scan.

    Parameters
    ----------
    catalogue, selector : the arms, and how to select some of them.
    schedule : the size of C by trial; without one it is the selector's k from the start.
    reselect : whether each query gets candidates of its own. If not, arms once in C stay in it, and
        C grows with respect to the current query. None: only without a schedule, as in the paper.
    repeat : whether a session may be shown the same arm more than once.
    seed : seed of every random draw.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        selector: Selector,
        *,
        schedule: Schedule | None = None,
        reselect: bool | None = None,
        repeat: bool = False,
        seed: int = 0,
    ) -> None:
        check_schedule(selector, schedule)
        self.catalogue, self.selector, self.seed = catalogue, selector, seed
        self.schedule, self.reselect, self.repeat = schedule, reselect, repeat
        self._sizes = None if schedule is None else Sizes(schedule)

    @property
    def pool(self) -> ArmPool:
        """The arms."""
        return self.catalogue.pool

    @property
    def reselects(self) -> bool:
        """Whether each query gets candidates of its own."""
        return self.schedule is None if self.reselect is None else self.reselect

    @property
    def reusable(self) -> bool:
        """Whether what is selected for a query depends only on the query, the arms and the size."""
        alone = self.reselects and not self.selector.draws and not self.selector.moves
        return alone and (self.schedule is None or self.repeat)

    def size(self, state: SessionState) -> int | None:
        """Return the size of C at the next recommendation; None if the selector has no k."""
        return self.selector.k if self._sizes is None else self._sizes.at(state.trial + 1)

    def draws(self, session: str, trial: int, purpose: int = _RANKING) -> np.random.Generator:
        """Return the generator of one recommendation: it depends only on seed, session and trial.

        So workers, replays and restarts draw the same numbers.
        """
        name = int.from_bytes(hashlib.sha256(session.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, name, trial, *([purpose] if purpose else ())])

    def select(
        self,
        places: Sequence[Place],
        states: Sequence[SessionState],
        *,
        pool: ArmPool | None = None,
        unknown: Sequence[Ids] | None = None,
        normalise: bool = True,
        vectors: bool = True,
    ) -> list[Candidates]:
        """Select arms for every place in one scan; none for a query without a vector.

        Sets of different sizes, with a schedule, need one scan each, and so do segments. For
        `normalise` and `vectors` see `Selector.select_many`.

        Parameters
        ----------
        places, states : the current queries, and their sessions.
        pool, unknown : the arms as they were then, if the queries are of the past, and what else
            was not known at each.
        """
        arms = self.pool if pool is None else pool
        no_vectors = np.empty((0, arms.dim if vectors else 0), np.float32)
        selected = [Candidates(NO_IDS, no_vectors, np.empty(0), np.empty(0))] * len(places)
        groups: dict[tuple[str, int | None], list[int]] = {}
        for number, (place, state) in enumerate(zip(places, states, strict=True)):
            if place.vector.any():
                groups.setdefault((place.segment, self.size(state)), []).append(number)
        for (segment, size), numbers in groups.items():
            arms_here = self.catalogue.segmented.of(segment, arms)
            if arms_here is None:
                continue
            hidden = [self._not_selected(places[number], states[number]) for number in numbers]
            if unknown is not None:
                both = zip(hidden, numbers, strict=True)
                hidden = [np.union1d(own, unknown[number]) for own, number in both]
            vectors_now = np.stack([places[number].vector for number in numbers])
            histories = [states[number].history for number in numbers]
            results = self.selector.select_many(
                arms_here,
                self.selector.anchors(arms_here, vectors_now, histories),
                hidden,
                self._draws_of([states[number] for number in numbers]),
                k=None if self.schedule is None else size,
                keep=[] if self.reselects else [arms.alive(states[n].kept) for n in numbers],
                normalise=normalise,
                vectors=vectors,
            )
            for number, candidates in zip(numbers, results, strict=True):
                selected[number] = candidates
                if self.selector.moves:  # a similarity is always that with the query
                    alike = arms.score(candidates.arms, places[number].vector)
                    selected[number] = replace(candidates, similarities=alike)
        return selected

    def select_further(
        self, place: Place, state: SessionState, hidden: Ids, *, normalise: bool
    ) -> Candidates:
        """Select more arms, since everything that was selected is hidden."""
        rng = self.draws(state.session, state.trial + 1, _FURTHER) if self.selector.draws else None
        arms = self.catalogue.segmented.of(place.segment)
        assert arms is not None  # something was selected from it
        return self.selector.select(arms, place.vector, hidden, rng, normalise=normalise)

    def kept(self, place: Place, state: SessionState, selected: Candidates) -> tuple[int, ...]:
        """Return the arms that stay in C; none if each query gets candidates of its own."""
        if self.reselects:
            return ()
        return tuple(selected.arms.tolist()) if place.vector.any() else state.kept

    def _draws_of(self, states: Sequence[SessionState]) -> list[np.random.Generator] | None:
        if not self.selector.draws:
            return None
        return [self.draws(state.session, state.trial + 1, _SELECTING) for state in states]

    def _not_selected(self, place: Place, state: SessionState) -> Ids:
        """Return the arms not to select: those not to recommend, and what a set of limited size
        has no place for."""
        if self.repeat or (self.schedule is None and self.reselects):
            return self._hidden(place)
        shown = (*state.history, *state.seen)
        return self._hidden(place, [arm for arm in shown if arm >= 0])  # not people's own queries

    def _hidden(self, place: Place, seen: Sequence[int] = ()) -> Ids:
        """Return the arms not to recommend, in order: excluded, the current one, and `seen`."""
        current = [] if place.arm is None else [place.arm]
        return np.union1d(self.catalogue.hidden_arms(), np.array([*current, *seen], np.int64))


def check_schedule(selector: Selector, schedule: Schedule | None) -> None:
    """Raise an error if a schedule has no size to set."""
    if schedule is not None and selector.k is None:
        raise InvalidInput(
            f"a schedule sets the number of candidates, but {type(selector).__name__} has "
            "no k to set. Use a selector with k, or no schedule."
        )


class _Step(NamedTuple):
    """A step whose candidates are wanted."""

    place: Place
    session_state: SessionState
    hidden: Ids
    returns: bool
    at: Moment


class Gathering(Selecting):
    """The part of the loop that gathers candidates, with what the memory knows of them.

    Parameters
    ----------
    catalogue, selector : the arms, and how to select some of them.
    model_state : its policy says whether the memory is needed.
    memory : memory of sessions; it recalls arms and gives all candidates features.
    schedule, reselect, repeat, seed : see `Selecting`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        selector: Selector,
        model_state: ModelState,
        memory: Memory,
        *,
        schedule: Schedule | None = None,
        reselect: bool | None = None,
        repeat: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(
            catalogue, selector, schedule=schedule, reselect=reselect, repeat=repeat, seed=seed
        )
        self.model_state, self.memory = model_state, memory
        # Select more when everything selected was already shown, unless a schedule sets the size.
        self.looks_further = schedule is None

    @property
    def policy(self) -> Policy:
        """The policy that ranks the candidates."""
        return self.model_state.policy

    def candidates(
        self,
        place: Place,
        state: SessionState,
        selected: Candidates,
        *,
        repeat: bool = True,
        returns: bool = True,
        at: Moment = NOW,
    ) -> tuple[Candidates, Context]:
        """Return what may be recommended for a query in a session, with the policy's context.

        Parameters
        ----------
        place, state : the current query, and its session.
        selected : the result of `select` for it.
        repeat : whether arms the session was shown may come again.
        returns : whether the session's own earlier queries may.
        at : when; at a moment of the past, only what was known then is used.
        """
        context = Context(place.vector, state.history, state.trial + 1)
        seen = () if repeat else state.seen
        hidden = self._hidden(
            place, [arm for arm in seen if arm not in state.history or not returns]
        )
        step = _Step(place, state, hidden, returns, at)
        candidates = self._with_memory(step, self._alive(selected))
        if not len(candidates) and len(selected) and self.looks_further and at.before is None:
            away = hidden if returns else np.union1d(hidden, np.array(state.history, np.int64))
            away = away[away >= 0]  # own queries are not in the pool
            further = self.select_further(place, state, away, normalise=selected.normalised)
            candidates = self._with_memory(step, further)
        return self._in_segment(candidates, place.segment), context

    def _in_segment(self, candidates: Candidates, segment: str) -> Candidates:
        """Drop what another segment asked: nothing should be there, whatever sessions it knows."""
        segmented = self.catalogue.segmented
        if not (segmented or segment):
            return candidates
        here = segmented.inside(candidates.arms, segment)
        return candidates if here.all() else candidates.take(here)

    def own_key(self, place: Place) -> Key | None:
        """Return the key under which a query's owner remembers it; None if it is not remembered.

        A query that is not an arm is remembered under the same rules by which it could become one:
        nothing that looks private, is blocked or was removed.
        """
        if place.arm is not None:
            return place.arm
        return place.text if place.may_become_arm else None

    def _alive(self, selected: Candidates) -> Candidates:
        """Drop the arms that were removed since they were selected."""
        if not len(self.pool.removed):
            return selected
        alive = self.pool.alive(selected.arms)
        removed = len(alive) < len(selected)
        return selected.take(np.isin(selected.arms, alive)) if removed else selected

    def _with_memory(self, step: _Step, selected: Candidates) -> Candidates:
        place, state, hidden = step.place, step.session_state, step.hidden
        asked = np.array(list(dict.fromkeys(state.history)), np.int64)
        earlier = asked[~among(asked, hidden)].tolist()
        if not self.policy.needs_memory:
            visible = without(selected, hidden if step.returns else _both(hidden, earlier))
            if visible.vectors.shape[1] == self.pool.dim:
                return visible
            # Candidates from a cache may have no vectors.
            return replace(visible, vectors=self.pool.rows(visible.arms))
        key = self.own_key(place)
        segment, segmented = place.segment, self.catalogue.segmented
        own = self.memory.own(
            state.person,
            key,
            previous=state.previous,
            at=step.at,
            own_id=lambda text: self.catalogue.own_id(text, segment),
            inside=(lambda arms: segmented.inside(arms, segment)) if segmented or segment else None,
            encode=lambda text: self.catalogue.encode(text_of(text)),
        )
        earlier += [arm for arm in own.this_session if arm not in earlier]
        if step.returns:  # earlier queries may come again, even if they were shown
            hidden = np.setdiff1d(hidden, np.array(own.this_session, np.int64))
        return with_memory(
            selected,
            self.pool,
            place.vector,
            self.memory,
            state.with_anchor(place.arm),
            running=place.arm is not None,
            hidden=hidden if step.returns else _both(hidden, earlier),
            returns=earlier if step.returns else (),
            own=own,
            at=step.at,
        )


def _both(hidden: Ids, more: Sequence[int]) -> Ids:
    return np.append(hidden, np.array(more, np.int64))


class Slate(NamedTuple):
    """Recommendations, best first, with the candidates and context they were chosen from.

    `failures` is what the policy would learn if every candidate failed.
    """

    choices: list[Choice]
    candidates: Candidates
    context: Context
    failures: bytes = b""


class ToRank(NamedTuple):
    """A slate that is wanted: see `Loop.rank`."""

    place: Place
    session_state: SessionState
    selected: Candidates
    m: int
    rng: np.random.Generator
    at_least: float


class Offered(NamedTuple):
    """What a slate is drawn from: its `candidates`, those of them that are `ranked`, and pins."""

    candidates: Candidates
    ranked: Candidates
    context: Context
    pinned: Sequence[int]


class Loop(Gathering):
    """Recommends and forecasts. It keeps no session state: pass a `SessionState` with each call.

    Parameters
    ----------
    catalogue : the arms and the blocked queries.
    selector : selects the candidates.
    model_state : the policy, its calibration and the live sessions.
    memory : memory of sessions, for a policy that needs one; its live part is that of the model.
    exploration : share of entries drawn uniformly from the candidates.
    repeat : whether a session may be shown the same arm more than once.
    returns : whether a session may be recommended its own earlier queries.
    fold_similar : whether a slate or a forecast shows only one of several queries that say the
        same in another form; see `nextquery.selection.duplicates`.
    recommend_at_least : recommend nothing less probable than this, by the calibrated probability
        that a forecast has; 0: anything.
    schedule, reselect : how the candidate set of a session grows; see `Selecting`.
    seed : seed of every random draw.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        selector: Selector,
        model_state: ModelState,
        memory: Memory,
        *,
        exploration: float = 0.0,
        repeat: bool = False,
        returns: bool = False,
        fold_similar: bool = False,
        recommend_at_least: float = 0.0,
        schedule: Schedule | None = None,
        reselect: bool | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            catalogue,
            selector,
            model_state,
            memory,
            schedule=schedule,
            reselect=reselect,
            repeat=repeat,
            seed=seed,
        )
        self.exploration, self.returns = exploration, returns
        self.recommend_at_least = recommend_at_least
        self.duplicate_keys = DuplicateKeys(catalogue) if fold_similar else None

    def use(self, model_state: ModelState) -> None:
        """Recommend with another model state from now on."""
        self.model_state, self.memory.live, self.memory.people = (
            model_state,
            model_state.live,
            model_state.people,
        )

    def with_model(self, model_state: ModelState, *, exploration: float | None = None) -> "Loop":
        """Return a loop with the same arms and memory that ranks by another model state."""
        twin = copy(self)
        twin.model_state = model_state
        if exploration is not None:
            twin.exploration = exploration
        return twin

    @property
    def fold_similar(self) -> bool:
        """Whether a slate shows only one of several queries that say the same."""
        return self.duplicate_keys is not None

    def with_duplicate_keys(self, candidates: Candidates) -> Candidates:
        """Return candidates that know which of them say the same, if that matters."""
        if self.duplicate_keys is None or not len(candidates):
            return candidates
        return replace(candidates, alike=self.duplicate_keys.of(candidates))

    def rank(
        self,
        place: Place,
        state: SessionState,
        selected: Candidates,
        m: int,
        rng: np.random.Generator,
        at: Moment = NOW,
        *,
        at_least: float | None = None,
    ) -> Slate:
        """Return a slate of up to m recommendations, each with a probability of `at_least` or more.

        `at_least` is `recommend_at_least` unless it is given. Candidates below it are not ranked,
        so the propensities are those of a choice among the others. All candidates stay in the
        slate: once the next query is known, every one of them was answered.
        """
        least = self.recommend_at_least if at_least is None else at_least
        return self.rank_many([ToRank(place, state, selected, m, rng, least)], at)[0]

    def rank_many(self, asked: Sequence["ToRank"], at: Moment = NOW) -> list[Slate]:
        """Return one slate each, as `rank` does; the policy ranks them together."""
        offered = [self.offered(one, at) for one in asked]
        slates = self.policy.rank_many(
            [one.ranked for one in offered],
            [one.context for one in offered],
            [max(1, one.m - len(its.pinned)) for one, its in zip(asked, offered, strict=True)],
            [one.rng for one in asked],
            exploration=self.exploration,
        )
        # Their own draws: what is learnt must not depend on the length of the slate.
        return [
            Slate(
                [*self.pinned(one.place, its.pinned), *choices][: one.m],
                its.candidates,
                its.context,
                self.policy.failures(its.candidates, its.context, one.rng.spawn(1)[0]),
            )
            for one, choices, its in zip(asked, slates, offered, strict=True)
        ]

    def offered(self, asked: "ToRank", at: Moment = NOW) -> "Offered":
        """Return what a slate is drawn from."""
        candidates, context = self.candidates(
            asked.place,
            asked.session_state,
            asked.selected,
            repeat=self.repeat,
            returns=self.returns,
            at=at,
        )
        pinned = self.catalogue.pinned(asked.place)[: asked.m]
        if pinned:
            candidates = without(candidates, pinned)
        eligible = candidates
        if asked.at_least > 0:
            probable = self.model_state.probabilities(candidates, context) >= asked.at_least
            eligible = candidates.take(probable)
        return Offered(candidates, self.with_duplicate_keys(eligible), context, pinned)

    def pinned(self, place: Place, arms: Sequence[int]) -> list[Choice]:
        """Return the entries of pinned arms; nobody drew them, so their propensity is 1."""
        scores = self.pool.score(arms, place.vector).tolist() if len(arms) else []
        return [
            Choice(arm, np.empty(0), score, 1.0, pinned=True)
            for arm, score in zip(arms, scores, strict=True)
        ]

    def forecast(
        self,
        place: Place,
        state: SessionState,
        selected: Candidates,
        m: int,
        *,
        returns: bool = True,
        at_least: float = 0.0,
        at: Moment = NOW,
    ) -> tuple[list[Likely], float]:
        """Return the m likeliest next queries, and the probability of any other query.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not.
        """
        candidates, context = self.candidates(place, state, selected, returns=returns, at=at)
        most = m if self.duplicate_keys is None else len(candidates)
        found = self.model_state.likeliest(candidates, context, most)
        if self.duplicate_keys is not None:
            arms = np.array([arm for arm, _ in found], np.int64)
            shown = best_first(self.duplicate_keys.of_arms(arms, candidates.own_texts))
            found = [one for one, kept in zip(found, shown.tolist(), strict=True) if kept][:m]
        likely = [
            Likely(arm, self.text_of(arm, candidates), probability)
            for arm, probability in found
            if probability >= at_least
        ]
        return likely, max(0.0, 1.0 - sum(entry.probability for entry in likely))

    def text_of(self, arm: int, candidates: Candidates) -> str:
        """Return the text of a candidate as shown to its user."""
        return self.catalogue.shown(arm) if arm >= 0 else text_of(candidates.own_texts[arm])

    def success(
        self, arm: int | None, slate: Sequence[Choice], candidates: Candidates, context: Context
    ) -> Choice | None:
        """Return the query that came next, with the features it had; None if not a candidate."""
        shown = next((choice for choice in slate if choice.arm == arm), None)
        return shown or self.policy.as_choice(candidates, context, arm)

    def typed_arm(self, place: Place, person: str | None) -> int | None:
        """Return the id of a typed query: its arm, or the id that its owner knows it by."""
        past = None if person is None else self.memory.people.of(person)
        known = None if past is None else past.queries.get(place.text)
        return place.arm if place.arm is not None or known is None else -1 - known.number

    def asked(self, place: Place, state: SessionState, time: float) -> None:
        """Record the current query of a session, for everybody and for its owner."""
        self.model_state.asked(place.arm, state.history, time)
        key = self.own_key(place)
        if state.person is not None and key is not None:
            vector = None if place.arm is not None else place.vector
            self.model_state.asked_by(
                state.person, key, time=time, vector=vector, after=state.previous
            )
