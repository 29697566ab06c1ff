"""Gathers what may be recommended for a query: arms that were selected, and arms recalled."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nextquery.arms.kernels import Ids
from nextquery.arms.pool import among
from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.learnt import Learnt
from nextquery.memory import NOW, Key, Memory, Moment, with_memory, without
from nextquery.policies.packed import Context
from nextquery.policies.policy import Policy
from nextquery.segments import text_of
from nextquery.selecting import Selecting
from nextquery.selection.schedule import Schedule
from nextquery.selection.selector import Candidates, Selector
from nextquery.visit import Visit


class _Step(NamedTuple):
    """A step whose candidates are wanted."""

    place: Place
    visit: Visit
    hidden: Ids
    returns: bool
    at: Moment


class Gathering(Selecting):
    """The part of the loop that gathers candidates, with what the memory knows of them.

    Parameters
    ----------
    catalogue, selector : the arms, and how to select some of them.
    learnt : its policy says whether the memory is needed.
    memory : memory of sessions; it recalls arms and gives all candidates features.
    schedule, reselect, repeat, seed : see `Selecting`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        selector: Selector,
        learnt: Learnt,
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
        self.learnt, self.memory = learnt, memory
        # Select more when everything selected was already shown, unless a schedule sets the size.
        self.looks_further = schedule is None

    @property
    def policy(self) -> Policy:
        """The policy that ranks the candidates."""
        return self.learnt.policy

    def candidates(
        self,
        place: Place,
        visit: Visit,
        selected: Candidates,
        *,
        repeat: bool = True,
        returns: bool = True,
        at: Moment = NOW,
    ) -> tuple[Candidates, Context]:
        """Return what may be recommended for a query in a session, with the policy's context.

        Parameters
        ----------
        place, visit : the current query, and its session.
        selected : the result of `select` for it.
        repeat : whether arms the session was shown may come again.
        returns : whether the session's own earlier queries may.
        at : when; at a moment of the past, only what was known then is used.
        """
        context = Context(place.vector, visit.history, visit.trial + 1)
        seen = () if repeat else visit.seen
        hidden = self._hidden(
            place, [arm for arm in seen if arm not in visit.history or not returns]
        )
        step = _Step(place, visit, hidden, returns, at)
        candidates = self._with_memory(step, self._alive(selected))
        if not len(candidates) and len(selected) and self.looks_further and at.before is None:
            away = hidden if returns else np.union1d(hidden, np.array(visit.history, np.int64))
            away = away[away >= 0]  # own queries are not in the pool
            further = self.select_further(place, visit, away, normalise=selected.normalised)
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
        place, visit, hidden = step.place, step.visit, step.hidden
        asked = np.array(list(dict.fromkeys(visit.history)), np.int64)
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
            visit.person,
            key,
            previous=visit.previous,
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
            visit.with_anchor(place.arm),
            running=place.arm is not None,
            hidden=hidden if step.returns else _both(hidden, earlier),
            returns=earlier if step.returns else (),
            own=own,
            at=step.at,
        )


def _both(hidden: Ids, more: Sequence[int]) -> Ids:
    return np.append(hidden, np.array(more, np.int64))
