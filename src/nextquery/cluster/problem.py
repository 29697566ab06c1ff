"""One optimisation problem on any node: the arms, their preferences, and greedy over a part."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.pool import NO_IDS
from nextquery.arms.scan import Blocks
from nextquery.cluster.shard import Share
from nextquery.errors import InvalidInput
from nextquery.selection import preference
from nextquery.selection.optimize import lazy_greedy
from nextquery.selection.utility import FacilityLocation, LogDet, LogProbability, Utility


class Problem(NamedTuple):
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
