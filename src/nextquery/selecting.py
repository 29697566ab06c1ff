"""The candidate set of a session: selected for each query, or kept and grown (Algorithm 2)."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nextquery.arms.kernels import Ids
from nextquery.arms.pool import NO_IDS, ArmPool
from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.errors import InvalidInput
from nextquery.selection.schedule import Schedule, Sizes
from nextquery.selection.selector import Candidates, Selector
from nextquery.visit import Visit

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

    def size(self, visit: Visit) -> int | None:
        """Return the size of C at the next recommendation; None if the selector has no k."""
        return self.selector.k if self._sizes is None else self._sizes.at(visit.trial + 1)

    def draws(self, session: str, trial: int, purpose: int = _RANKING) -> np.random.Generator:
        """Return the generator of one recommendation: it depends only on seed, session and trial.

        So workers, replays and restarts draw the same numbers.
        """
        name = int.from_bytes(hashlib.sha256(session.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, name, trial, *([purpose] if purpose else ())])

    def select(
        self,
        places: Sequence[Place],
        visits: Sequence[Visit],
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
        places, visits : the current queries, and their sessions.
        pool, unknown : the arms as they were then, if the queries are of the past, and what else
            was not known at each.
        """
        arms = self.pool if pool is None else pool
        no_vectors = np.empty((0, arms.dim if vectors else 0), np.float32)
        selected = [Candidates(NO_IDS, no_vectors, np.empty(0), np.empty(0))] * len(places)
        groups: dict[tuple[str, int | None], list[int]] = {}
        for number, (place, visit) in enumerate(zip(places, visits, strict=True)):
            if place.vector.any():
                groups.setdefault((place.segment, self.size(visit)), []).append(number)
        for (segment, size), numbers in groups.items():
            arms_here = self.catalogue.segmented.of(segment, arms)
            if arms_here is None:
                continue
            hidden = [self._not_selected(places[number], visits[number]) for number in numbers]
            if unknown is not None:
                both = zip(hidden, numbers, strict=True)
                hidden = [np.union1d(own, unknown[number]) for own, number in both]
            vectors_now = np.stack([places[number].vector for number in numbers])
            histories = [visits[number].history for number in numbers]
            results = self.selector.select_many(
                arms_here,
                self.selector.anchors(arms_here, vectors_now, histories),
                hidden,
                self._draws_of([visits[number] for number in numbers]),
                k=None if self.schedule is None else size,
                keep=[] if self.reselects else [arms.alive(visits[n].kept) for n in numbers],
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
        self, place: Place, visit: Visit, hidden: Ids, *, normalise: bool
    ) -> Candidates:
        """Select more arms, since everything that was selected is hidden."""
        rng = self.draws(visit.session, visit.trial + 1, _FURTHER) if self.selector.draws else None
        arms = self.catalogue.segmented.of(place.segment)
        assert arms is not None  # something was selected from it
        return self.selector.select(arms, place.vector, hidden, rng, normalise=normalise)

    def kept(self, place: Place, visit: Visit, selected: Candidates) -> tuple[int, ...]:
        """Return the arms that stay in C; none if each query gets candidates of its own."""
        if self.reselects:
            return ()
        return tuple(selected.arms.tolist()) if place.vector.any() else visit.kept

    def _draws_of(self, visits: Sequence[Visit]) -> list[np.random.Generator] | None:
        if not self.selector.draws:
            return None
        return [self.draws(visit.session, visit.trial + 1, _SELECTING) for visit in visits]

    def _not_selected(self, place: Place, visit: Visit) -> Ids:
        """Return the arms not to select: those not to recommend, and what a set of limited size
        has no place for."""
        if self.repeat or (self.schedule is None and self.reselects):
            return self._hidden(place)
        shown = (*visit.history, *visit.seen)
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
