"""One optimisation as any node sees it: which arms, how preferred, and greedy over some of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nextquery import preference
from nextquery.arms.blocks import Blocks
from nextquery.arms.ids import NO_IDS
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.cluster.shard import Share
from nextquery.errors import InvalidInput
from nextquery.optimize import lazy_greedy
from nextquery.utility import FacilityLocation, LogDet, LogProbability, Utility


class Problem(NamedTuple):
    """Everything but the arms themselves, which a node maps from the folder that all nodes reach.

    A node computes what it needs from the ids alone: similarities by the one definition of a
    score, preferences from the pool's sums, and gains that do not depend on which arms are asked
    for together. So greedy over a part chooses, wherever it runs, what it chooses in one process.

    Parameters
    ----------
    share, added : the stored rows, and those added since.
    ground : the ids to choose from, sorted; None: all of `rows` that are not `hidden`.
    hidden : removed and excluded ids, sorted.
    mass : the pool's sums for this anchor.
    peak : the largest preference in the ground set (for log-det).
    k : how many arms to choose, at most as many as there are.
    memory : bytes that the numbers of one utility may take.
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
        """How many rows lie in the folder."""
        return self.share.last

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return self.stored + len(self.added)

    def count(self, first: int = 0, last: int | None = None) -> int:
        """How many arms there are to choose from, of those from `first` up to `last`."""
        end = self.rows if last is None else last
        among = self.hidden if self.ground is None else self.ground
        low, high = np.searchsorted(among, (first, end)).tolist()
        return int(high - low if self.ground is not None else end - first - (high - low))

    def ids(self, first: int = 0, last: int | None = None) -> Ids:
        """Those arms themselves, in order."""
        end = self.rows if last is None else last
        among = self.hidden if self.ground is None else self.ground
        low, high = np.searchsorted(among, (first, end)).tolist()
        if self.ground is not None:
            return self.ground[low:high]
        return np.delete(np.arange(first, end), self.hidden[low:high] - first)

    def draw(self, m: int, seed: int) -> Ids:
        """For each arm of the ground set, which of m parts it is in: as `optimize.greedi` draws."""
        return np.random.default_rng(seed).integers(m, size=self.count())

    def answer_of_draw(self, part: int, m: int, seed: int) -> list[int]:
        """The answer of one of m parts at random."""
        return self.answer(self.ids()[np.flatnonzero(self.draw(m, seed) == part)])

    def answer(self, ids: Ids) -> list[int]:
        """The first round of Algorithm 3: lazy greedy over one part, given in order of id."""
        chosen = lazy_greedy(self._utility_of(ids), range(len(ids)), self.k)
        return [int(arm) for arm in ids[chosen]]

    def merge(self, answers: Sequence[Sequence[int]]) -> list[int]:
        """The second round: greedy over the union, or the best part's answer where that is better.

        Step for step what `optimize.greedi` does with the parts' answers.
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
        """Refuse a part, or a union of answers, whose utility would not fit into memory."""
        columns = {"facility-location": self.count(), "log-det": len(self.anchor)}
        needed = 8 * arms * columns.get(self.utility, 1)
        if needed > self.memory:
            raise InvalidInput(
                f"{self.utility} over {arms:,} of {self.count():,} arms needs "
                f"{_size(needed)} for its numbers alone, and memory allows "
                f"{_size(self.memory)}. Give a shortlist, more parts, or more memory."
            )

    def _utility_of(self, ids: Ids) -> Utility:
        """The utility of these arms among all there are, which are 0, 1, … in it."""
        self.check_size(len(ids))
        blocks = Blocks([self.share.load().stored, self.added], NO_IDS)
        if self.utility == "facility-location":
            everyone = self.ids()
            places = np.searchsorted(everyone, ids).tolist()
            preferences = self._preferences(blocks, everyone)
            return FacilityLocation(preferences, blocks.rows(everyone), candidates=places)
        preferences = self._preferences(blocks, ids)
        if self.utility == "log-det":
            rows = blocks.rows(ids)
            return LogDet(preferences, rows, strength=self.strength, peak=self.peak)
        return LogProbability(preferences)

    def _preferences(self, blocks: Blocks, ids: Ids) -> Floats:
        return self.preferences_of(blocks.score(ids, self.anchor))

    def preferences_of(self, similarities: Floats) -> Floats:
        """The preferences of arms with these similarities."""
        clipped, similar = preference.clip(similarities, self.epsilon)
        return preference.of_mass(clipped, similar, self.mass, self.reading)


def _size(count: int) -> str:
    """Bytes for people.

    >>> _size(1000), _size(5 << 20), _size(3 << 30)
    ('1,000 bytes', '5.0 MiB', '3.0 GiB')
    """
    if count < 2**20:
        return f"{count:,} bytes"
    unit, name = (2**30, "GiB") if count >= 2**30 else (2**20, "MiB")
    return f"{count / unit:,.1f} {name}"
