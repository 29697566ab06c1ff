"""The base class of selectors: from a pool of millions to a few candidates for one anchor."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.arms.kernels import Ids, Vectors
from nextquery.arms.pool import ArmPool
from nextquery.arms.scan import Band, Found, Sums
from nextquery.checks import number, one_of, params_of, whole_number
from nextquery.errors import ClusterUnavailable, InvalidInput
from nextquery.selection import preference

Floats = NDArray[np.float64]
LEAST_POSITIVE = np.nextafter(0.0, 1.0)


def refuse_partial(missing: int) -> None:
    """Raise if some arms could not be searched and a partial result is not acceptable."""
    if missing:
        raise ClusterUnavailable(
            f"{missing} arms are unavailable, so the result would be partial. Ray restarts failed "
            "shards if it can: check `ray status` and try again."
        )


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidate set C for one anchor, best first by (−preference, id).

    `missing` is the number of arms that could not be searched; always 0 except on a cluster.
    `normalised` is False if `preferences` are in another unit than the paper's, since nobody asked
    for the sum over the pool that divides them all (`Selector.select_many`).
    `features` are the memory's features of each arm (`nextquery.memory`), if there is a memory, and
    `recalled` the arms that it added to the selected ones.
    `own_texts` are the texts of a person's own queries that are not arms: their ids are negative.
    `own_asked` is when this person last asked each of their own queries, in Unix time.
    `alike` has two numbers for each: a slate shows one of those with an equal number (see
    `nextquery.selection.duplicates`); None: it may show all of them.

    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> candidates = nq.MaxUtility(k=2).select(pool, [1, 0])
    >>> candidates.arms.tolist(), candidates.similarities.round(3).tolist()
    ([0, 1], [1.0, 0.894])
    >>> len(candidates.take([0]))
    1
    """

    arms: Ids
    vectors: Vectors
    similarities: Floats
    preferences: Floats
    missing: int = 0
    features: Vectors | None = None
    own_texts: Mapping[int, str] = field(default_factory=dict)
    own_asked: Mapping[int, float] = field(default_factory=dict)
    normalised: bool = True
    recalled: Set[int] = frozenset()
    alike: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name, kind in (("arms", np.int64), ("similarities", float), ("preferences", float)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), kind))
        object.__setattr__(self, "vectors", np.asarray(self.vectors))
        if self.vectors.ndim != 2 or {
            len(self.vectors),
            len(self.similarities),
            len(self.preferences),
        } != {len(self.arms)}:
            raise InvalidInput(
                "candidates must have the same number of arms, vectors, similarities and "
                f"preferences; received {len(self.arms)}, {self.vectors.shape}, "
                f"{len(self.similarities)} and {len(self.preferences)}."
            )

    def __len__(self) -> int:
        return len(self.arms)

    def take(self, places: ArrayLike) -> "Candidates":
        """Return some of the candidates, by mask or by position."""
        at = np.asarray(places)
        return Candidates(
            self.arms[at],
            self.vectors[at],
            self.similarities[at],
            self.preferences[at],
            self.missing,
            None if self.features is None else self.features[at],
            self.own_texts,
            self.own_asked,
            self.normalised,
            self.recalled,
            None if self.alike is None else self.alike[at],
        )


class Selector(ABC):
    """A selection strategy. A subclass implements `_pick`, which picks arms for each anchor.

    `epsilon` and `reading` set how the candidates' preferences are computed (see
    `nextquery.selection.preference`). Random draws come from the `rng` of a call, or else from a
    generator made from `seed`.

    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> for selector in (nq.MaxUtility(k=1), nq.Zooming(threshold=0.8)):
    ...     print(selector.select(pool, [1, 0]).arms.tolist())
    [0]
    [0, 1]
    >>> [len(found) for found in nq.MaxUtility(k=2).select_many(pool, [[1, 0], [0, 1]])]
    [2, 2]
    """

    k: int | None = None
    """The number of arms to select, or None for strategies without a fixed number."""

    draws = False
    """Whether it selects at random, so that the same call selects other arms each time."""

    moves = False
    """Whether it selects around another vector than the query's, which depends on the session."""

    @property
    def orders_without_sums(self) -> bool:
        """Whether the candidates and their order need no sums over the pool."""
        return False

    def __init__(self, *, epsilon: float = 0.5, reading: str = "example", seed: int = 0) -> None:
        self.epsilon = number(epsilon, "epsilon", low=0, high=1)
        self.reading = one_of(reading, "reading", preference.READINGS)
        self.seed = whole_number(seed, "seed", at_least=0)
        self.generator = np.random.default_rng(self.seed)

    def select(
        self,
        pool: ArmPool,
        vector: ArrayLike,
        exclude: Iterable[int] = (),
        rng: np.random.Generator | None = None,
        *,
        k: int | None = None,
        keep: Iterable[int] = (),
        normalise: bool = True,
    ) -> Candidates:
        """Select the candidates for one anchor, never the ids in `exclude` (the anchor's own).

        `k` overrides the selector's. `keep` are arms already in C: they stay and count, so that C
        grows to `k` (Algorithm 2 of the paper). For `normalise` see `select_many`.
        """
        hidden, kept, one = [list(exclude)], [list(keep)], np.asarray(vector)[None]
        return self.select_many(pool, one, hidden, rng, k=k, keep=kept, normalise=normalise)[0]

    def select_many(
        self,
        pool: ArmPool,
        matrix: ArrayLike,
        exclude: Sequence[Iterable[int]] = (),
        rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
        *,
        k: int | None = None,
        keep: Sequence[Iterable[int]] = (),
        normalise: bool = True,
        vectors: bool = True,
    ) -> list[Candidates]:
        """Select the candidates for every row of a matrix of anchors, in one pass over the pool.

        With one `rng` per row, the draws for a row do not depend on the other rows. Without
        `normalise`, the same arms come in the same order, but their preferences may be in another
        unit: then the sums over the pool, half of the time, are left out where no order needs them.
        Without `vectors`, the candidates have none, nine tenths of a set; the loop adds them.
        """
        anchors = pool.anchors(matrix)
        if k is not None:
            if self.k is None:
                raise InvalidInput(f"{type(self).__name__} selects by threshold and takes no k.")
            whole_number(k, "k", at_least=1)
        request = Request(
            pool,
            anchors,
            pool.excluded([np.asarray(list(ids), np.int64) for ids in exclude], len(anchors)),
            pool.excluded([np.asarray(list(ids), np.int64) for ids in keep], len(anchors)),
            self.k if k is None else k,
            _one_each(self.generator if rng is None else rng, len(anchors)),
            normalise=normalise or not self.orders_without_sums,
        )
        sums, picked = self._pick(request)
        return self._candidates(request, sums, picked, vectors=vectors)

    def anchors(
        self, pool: ArmPool, vectors: Vectors, histories: Sequence[Sequence[int]]
    ) -> Vectors:
        """Return the vectors to select around, for the loop: those of the queries, or moved ones.

        `histories` are the arms of the sessions' earlier queries, oldest first.
        """
        return vectors

    @abstractmethod
    def _pick(self, request: "Request") -> tuple[Sums, list[Found]]:
        """Return the pool's sums, and for every anchor the arms to add to the kept ones."""

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return params_of(self)

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"

    def _candidates(
        self, request: "Request", sums: Sums, picked: Sequence[Found], *, vectors: bool
    ) -> list[Candidates]:
        ordered = [self._in_order(request, sums, i, found) for i, found in enumerate(picked)]
        if vectors:
            rows = request.pool.rows_of([arms for arms, _, _ in ordered])
        else:
            rows = [np.empty((len(arms), 0), np.float32) for arms, _, _ in ordered]
        missing, normalised = sums.missing, request.normalise
        return [
            Candidates(arms, of_arms, similarities, preferences, missing, normalised=normalised)
            for (arms, similarities, preferences), of_arms in zip(ordered, rows, strict=True)
        ]

    def _in_order(
        self, request: "Request", sums: Sums, i: int, found: Found
    ) -> tuple[Ids, Floats, Floats]:
        arms, similarities = found.ids, found.similarities
        if not request.normalise and not len(request.keep[i]):  # found in this order
            return arms, similarities, np.maximum(similarities, 0.0)
        if len(kept := request.keep[i]):
            arms = np.concatenate([kept, arms])
            similarities = np.concatenate([request.score(i, kept), similarities])
        preferences = self._preferences(similarities, request.mass(sums, i))
        order = np.lexsort((arms, -preferences))
        return arms[order], similarities[order], preferences[order]

    def _preferences(self, similarities: Floats, mass: preference.Mass) -> Floats:
        clipped, similar = preference.clip(similarities, self.epsilon)
        return preference.of_mass(clipped, similar, mass, self.reading)


@dataclass(frozen=True)
class Request:
    """The arguments of one call of `select_many`."""

    pool: ArmPool
    anchors: Vectors
    exclude: list[Ids]
    keep: list[Ids]
    k: int | None
    rngs: Sequence[np.random.Generator]
    normalise: bool = True

    def scan(self, bands: Sequence[Band], epsilon: float) -> tuple[list[list[Found]], Sums]:
        """Scan the pool once for the arms in each band and the sums that preferences need."""
        summed = epsilon if self.normalise else None
        found, sums = self.pool.scan(self.anchors, bands, exclude=self.exclude, epsilon=summed)
        if sums is None:
            missing = max((part.missing for row in found for part in row), default=0)
            sums = Sums.unknown(len(self.anchors), missing)
        return found, sums

    def missing(self, i: int) -> int:
        """Return how many arms are still needed for anchor i."""
        assert self.k is not None
        return max(0, self.k - len(self.keep[i]))

    def not_kept(self, i: int, found: Found) -> Found:
        """Drop the arms that are already in C."""
        new = ~np.isin(found.ids, self.keep[i]) if len(self.keep[i]) else slice(None)
        return Found(found.ids[new], found.similarities[new], found.missing)

    def score(self, i: int, arms: Ids) -> Floats:
        """Return the exact similarities of some arms with anchor i."""
        return self.pool.score(arms, self.anchors[i])

    def mass(self, sums: Sums, i: int) -> preference.Mass:
        """Return the sums over the pool for anchor i."""
        arms = max(0, self.pool.count(self.exclude[i]) - sums.missing)  # arms in the sums
        return preference.Mass(float(sums.total[i]), float(sums.similar[i]), arms)


def _one_each(
    rng: np.random.Generator | Sequence[np.random.Generator], rows: int
) -> Sequence[np.random.Generator]:
    if isinstance(rng, np.random.Generator):
        return [rng] * rows
    if len(rng) != rows:
        raise InvalidInput(f"pass one rng, or one for each of {rows} rows; received {len(rng)}.")
    return rng
