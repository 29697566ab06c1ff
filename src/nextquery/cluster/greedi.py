"""Algorithm 3 (GreeDi) on a cluster: lazy greedy on every part, then on the parts' answers.

Each part is optimised on the node that holds its arms.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import ray
from numpy.typing import ArrayLike

from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.pool import NO_IDS, checked_ids
from nextquery.arms.scan import Blocks, RowRange
from nextquery.checks import number, one_of, whole_number
from nextquery.cluster.connection import warn_if_no_cpus
from nextquery.cluster.shards import Share
from nextquery.errors import ClusterUnavailable, InvalidInput
from nextquery.selection import MaxUtility, preference
from nextquery.selection.max_utility import SHARDS, UTILITIES
from nextquery.selection.optimize import lazy_greedy
from nextquery.selection.selector import refuse_partial
from nextquery.selection.utility import FacilityLocation, LogDet, LogProbability, Utility

if TYPE_CHECKING:
    from nextquery.cluster.pool import RayArmPool  # it imports this module


class GreediProblem(NamedTuple):
    """Everything but the arms themselves, which a node maps from the shared folder.

    A node computes what it needs from ids: similarities by the common definition of a score,
    preferences from the pool's sums, and gains that do not depend on which arms are computed
    together. So greedy over a part chooses the same arms on any node as in one process.

    Parameters
    ----------
    share, added : the stored rows, and those added since.
    ground : the ids to choose from, sorted; None for all of `rows` that are not `hidden`.
    hidden : removed and excluded ids, sorted.
    mass : the pool's sums for this anchor.
    peak : the largest preference in the ground set (for log-det).
    k : number of arms to choose, at most the number available.
    memory : bytes that the numbers of one utility may use.
    """

    share: Share
    added: Vectors
    ground: Ids | None
    hidden: Ids
    anchor: Vectors
    mass: preference.Mass
    epsilon: float
    reading: str
    utility: str
    strength: float
    peak: float
    k: int
    memory: int

    @property
    def stored(self) -> int:
        """Number of rows in the folder."""
        return self.share.last

    @property
    def rows(self) -> int:
        """Number of rows in total."""
        return self.stored + len(self.added)

    def count(self, first: int = 0, last: int | None = None) -> int:
        """Count the arms to choose from, with ids from `first` up to `last`."""
        end = self.rows if last is None else last
        among = self.hidden if self.ground is None else self.ground
        low, high = np.searchsorted(among, (first, end)).tolist()
        return int(high - low if self.ground is not None else end - first - (high - low))

    def ids(self, first: int = 0, last: int | None = None) -> Ids:
        """Return the ids of those arms, in order."""
        end = self.rows if last is None else last
        among = self.hidden if self.ground is None else self.ground
        low, high = np.searchsorted(among, (first, end)).tolist()
        if self.ground is not None:
            return self.ground[low:high]
        return np.delete(np.arange(first, end), self.hidden[low:high] - first)

    def draw(self, m: int, seed: int) -> Ids:
        """Draw one of m parts for each arm of the ground set, as `optimize.greedi` does."""
        return np.random.default_rng(seed).integers(m, size=self.count())

    def answer_of_draw(self, part: int, m: int, seed: int) -> list[int]:
        """Return the answer of one of m random parts."""
        return self.answer(self.ids()[np.flatnonzero(self.draw(m, seed) == part)])

    def answer(self, ids: Ids) -> list[int]:
        """Run the first round of Algorithm 3: lazy greedy over one part, in order of id."""
        chosen = lazy_greedy(self._utility_of(ids), range(len(ids)), self.k)
        return [int(arm) for arm in ids[chosen]]

    def merge(self, answers: Sequence[Sequence[int]]) -> list[int]:
        """Run the second round: greedy over the union, or the best part's answer if that is better.

        It does the same steps as `optimize.greedi`.
        """
        union = np.sort(np.array([arm for answer in answers for arm in answer], np.int64))
        utility = self._utility_of(union)
        best = lazy_greedy(utility, range(len(union)), self.k)
        best_value = utility.value(best)
        for answer in answers:
            places = np.searchsorted(union, np.asarray(answer, np.int64)).tolist()
            if len(answer) == self.k and utility.value(places) > best_value:
                best, best_value = places, utility.value(places)
        return [int(arm) for arm in union[best]]

    def check_size(self, arms: int) -> None:
        """Raise an error if the utility of a part, or of a union of answers, exceeds `memory`."""
        columns = {"facility-location": self.count(), "log-det": len(self.anchor)}
        needed = 8 * arms * columns.get(self.utility, 1)
        if needed > self.memory:
            raise InvalidInput(
                f"{self.utility} over {arms:,} of {self.count():,} arms needs "
                f"{_size(needed)} for its numbers, but memory allows "
                f"{_size(self.memory)}. Pass a shortlist, more parts, or more memory."
            )

    def _utility_of(self, ids: Ids) -> Utility:
        """Return the utility of these arms, which are numbered 0, 1, … in it."""
        self.check_size(len(ids))
        blocks = Blocks([self.share.load().stored, self.added], NO_IDS)
        if self.utility == "facility-location":
            all_ids = self.ids()
            places = np.searchsorted(all_ids, ids).tolist()
            preferences = self._preferences(blocks, all_ids)
            return FacilityLocation(preferences, blocks.rows(all_ids), candidates=places)
        preferences = self._preferences(blocks, ids)
        if self.utility == "log-det":
            rows = blocks.rows(ids)
            return LogDet(preferences, rows, strength=self.strength, peak=self.peak)
        return LogProbability(preferences)

    def _preferences(self, blocks: Blocks, ids: Ids) -> Floats:
        return self.preferences_of(blocks.score(ids, self.anchor))

    def preferences_of(self, similarities: Floats) -> Floats:
        """Return the preferences of arms with these similarities."""
        clipped, similar = preference.clip(similarities, self.epsilon)
        return preference.of_mass(clipped, similar, self.mass, self.reading)


def _size(count: int) -> str:
    """Format a number of bytes.

    >>> _size(1000), _size(5 << 20), _size(3 << 30)
    ('1,000 bytes', '5.0 MiB', '3.0 GiB')
    """
    if count < 2**20:
        return f"{count:,} bytes"
    unit, name = (2**30, "GiB") if count >= 2**30 else (2**20, "MiB")
    return f"{count / unit:,.1f} {name}"


_TRIES = 5  # how often Ray restarts a task whose process or machine died
_retried = ray.remote(max_retries=_TRIES)
_answer = _retried(GreediProblem.answer)
_answer_of_draw = _retried(GreediProblem.answer_of_draw)
_merge = _retried(GreediProblem.merge)


def greedi(
    pool: "RayArmPool",
    vector: ArrayLike,
    k: int,
    *,
    utility: str = "log-probability",
    partitions: str | int | Sequence[Sequence[int]] = "shards",
    seed: int = 0,
    epsilon: float = 0.5,
    reading: str = "example",
    exclude: Iterable[int] = (),
    ground_set: Iterable[int] | None = None,
    shortlist: int | None = None,
    strength: float = 1.0,
    memory: int = 4 << 30,
    mass: preference.Mass | None = None,
) -> list[int]:
    """Choose arms for one anchor with GreeDi, in order of choice (Algorithm 3 of the paper).

    If all nodes have the same type of processor, ids and order are those of `optimize.greedi` in
    one process with the same arms and parts. Only ids cross the network: k from every part, and the
    ground set if you pass one. The nodes map the vectors they need. With the modular
    ``log-probability`` the answer is that of `MaxUtility`, which needs only one pass (and under
    ``joint`` omits arms without preference; under ``one-side`` it stays on one side of ε, which you
    get here with a `shortlist` of k). ``MaxUtility(optimizer="greedi")`` calls this for a
    `RayArmPool`, so a `Recommender` or the service can select by it.

    For facility location and log-det the value is at least (1 − 1/e)/min(k, m) of the optimum for m
    parts of any kind (Mirzasoleiman et al. 2016), and (1 − 1/e)/2 in expectation for random parts
    (Barbosa et al. 2015). ``docs/measurements/greedi.md`` shows the values on real arms.

    Parameters
    ----------
    pool, vector : the pool to choose from, and the anchor.
    k : number of arms, at least 1; fewer are returned if there are fewer.
    utility : ``log-probability``, ``facility-location`` or ``log-det``.
    partitions : ``shards``, each computed in its actor (arms added since are one more part); or a
        number of parts to draw at random with `seed`; or the parts themselves, as ids.
    epsilon, reading : how preferences follow from similarities, as in `MaxUtility`.
    exclude : ids never to choose, such as the anchor's own.
    ground_set, shortlist : choose only from these ids, except removed and excluded ones; or from
        this many most preferred arms, at least k. By default choose from all arms.
    strength : λ > 0 of log-det.
    memory : bytes that the numbers of one part may use; larger parts raise an error. Facility
        location needs 8 × arms of the part × arms of the ground set, log-det 8 × arms × dimensions.
        The merge counts as a part of up to m·k arms.
    mass : the pool's sums for this anchor, if you have them; else one more scan computes them.

    If the process or machine of a part dies, the part starts again, on another machine if needed.
    If a shard stays unavailable or a part is lost, this raises `errors.ClusterUnavailable`: the
    answer never comes from only some of the arms. While a shard runs greedy, its searches wait.
    """
    if not hasattr(pool, "greedi"):
        raise InvalidInput(
            f"cluster.greedi takes a RayArmPool; received {type(pool).__name__}. Use "
            "optimize.greedi in one process."
        )
    whole_number(k, "k", at_least=1)
    whole_number(seed, "seed", at_least=0)
    one_of(utility, "utility", UTILITIES)
    anchor = pool.anchors(np.asarray(vector)[None])
    excluded = pool.excluded([list(exclude)], 1)[0]
    if ground_set is not None and shortlist is not None:
        raise InvalidInput("received both ground_set and shortlist. Pass only one of them.")
    selector = MaxUtility(epsilon=epsilon, reading=reading)
    ground = None if ground_set is None else _given(pool, ground_set, excluded)
    if shortlist is not None:
        whole_number(shortlist, "shortlist", at_least=k)
        preferred = selector.select(pool, anchor[0], exclude=excluded, k=shortlist)
        refuse_partial(preferred.missing)
        ground = np.sort(preferred.arms)
    problem = GreediProblem(
        share=_all_rows(pool),
        added=pool._added(),
        ground=ground,
        hidden=np.union1d(pool.removed, excluded),
        anchor=anchor[0],
        mass=_mass(pool, anchor, excluded, selector.epsilon) if mass is None else mass,
        epsilon=selector.epsilon,
        reading=selector.reading,
        utility=utility,
        strength=number(strength, "strength", low=0, above_low=True),
        peak=0.0,
        k=k,
        memory=whole_number(memory, "memory", at_least=1),
    )
    problem = problem._replace(k=min(k, problem.count()))
    if utility == "log-det":
        problem = problem._replace(peak=_peak(pool, problem, selector, excluded))
    return _rounds(pool, problem, partitions, seed) if problem.k else []


def _rounds(
    pool: "RayArmPool",
    problem: GreediProblem,
    partitions: str | int | Sequence[Sequence[int]],
    seed: int,
) -> list[int]:
    """Run both rounds of Algorithm 3; the second also on a node, because it may need all arms."""
    bounds = [*pool._shards.bounds.tolist(), problem.rows]
    warn_if_no_cpus()
    shared = ray.put(problem)
    if isinstance(partitions, str):
        if partitions != SHARDS:
            raise InvalidInput(
                f"partitions must be a whole number of at least 1, or {SHARDS!r}, or lists of "
                f"arms; received {partitions!r}."
            )
        _check_sizes(problem, [problem.count(*ends) for ends in pairwise(bounds)])
        added = [_answer.remote(shared, problem.ids(problem.stored))] if len(problem.added) else []
        answers = [*pool.on_every_shard(_answer_of_shard, shared), *_results(added)]
    elif not isinstance(partitions, Sequence | np.ndarray):
        m = whole_number(partitions, "partitions", at_least=1)
        _check_sizes(problem, np.bincount(problem.draw(m, seed), minlength=m).tolist())
        answers = _results([_answer_of_draw.remote(shared, part, m, seed) for part in range(m)])
    else:
        rows = pool.rows_in_all
        parts = [
            np.sort(checked_ids(part, "partitions", rows, keep_order=True)) for part in partitions
        ]
        ids = np.sort(np.concatenate([NO_IDS, *parts]))
        if not np.array_equal(ids, problem.ids()):
            raise InvalidInput("partitions must contain every arm of the ground set exactly once.")
        _check_sizes(problem, [len(part) for part in parts])
        answers = _results([_answer.remote(shared, part) for part in parts])
    return [int(arm) for arm in _results([_merge.remote(shared, answers)])[0]]


def _check_sizes(problem: GreediProblem, sizes: Sequence[int]) -> None:
    """Raise an error for parts that are too large, before anything is computed."""
    problem.check_size(max(sizes, default=0))
    problem.check_size(sum(min(size, problem.k) for size in sizes))


def _given(pool: "RayArmPool", ground_set: Iterable[int], excluded: Ids) -> Ids:
    """Return the ids of a ground set in order, without removed and excluded ones."""
    ids = checked_ids(ground_set, "ground_set", pool.rows_in_all, keep_order=True)
    if len(np.unique(ids)) != len(ids):
        raise InvalidInput("ground_set names an arm twice. Pass every arm once.")
    return np.setdiff1d(pool.alive(ids), excluded)


def _all_rows(pool: "RayArmPool") -> Share:
    assert pool._folder is not None
    return Share(pool._folder, 0, len(pool._rows.stored))


def _mass(pool: "RayArmPool", anchor: Vectors, excluded: Ids, epsilon: float) -> preference.Mass:
    """Return the sums over the whole pool, which preferences need for any ground set."""
    _, sums = pool.scan(anchor, [], exclude=[excluded], epsilon=epsilon)
    assert sums is not None
    refuse_partial(sums.missing)
    return preference.Mass(float(sums.total[0]), float(sums.similar[0]), pool.count(excluded))


def _peak(pool: "RayArmPool", problem: GreediProblem, selector: MaxUtility, excluded: Ids) -> float:
    """Return the largest preference in the ground set without scanning all of it."""
    if problem.ground is not None:
        similarities = pool.score(problem.ground, problem.anchor)
    else:
        first = selector.select(pool, problem.anchor, exclude=excluded, k=1)
        refuse_partial(first.missing)
        similarities = first.similarities
    return float(problem.preferences_of(similarities).max(initial=0.0))


def _cancel(sent: Sequence[Any]) -> None:
    """Cancel the remaining tasks: one part has failed, so there is no answer."""
    for ref in sent:
        ray.cancel(ref, force=False)


def _results(sent: Sequence[Any]) -> list[Any]:
    """Return the results of tasks, in order; raise their own errors unchanged."""
    try:
        return list(ray.get(list(sent)))
    except ray.exceptions.RayTaskError as error:
        _cancel(sent)
        raise error.cause from error
    except ray.exceptions.RayError as error:
        _cancel(sent)
        raise ClusterUnavailable(
            f"the process of a part died, also after {_TRIES} retries: "
            f"{str(error).strip().splitlines()[0]} Check `ray status`. If memory was short, pass a "
            "shortlist or more parts."
        ) from error


def _answer_of_shard(part: RowRange, problem: GreediProblem) -> list[int]:
    return problem.answer(problem.ids(part.first, part.first + len(part.rows)))
