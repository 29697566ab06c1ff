"""The cells of a grid, one per setting and policy, with their anchors and random generators.

Anchors are drawn from past sessions as arm ids. Each purpose has its own random generator, so
draws do not depend on what ran before.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.registry import (
    has_size,
    policy_named,
    schedule_named,
    selector_named,
    with_alpha,
)
from nextquery.selection import MaxUtility, Schedule, Selector
from nextquery.selection.preference import READINGS
from nextquery.selection.schedule import Sizes
from nextquery.sessions import Sessions

_DRAWING = ("random", "sampled")  # selections that draw at random
_ROUNDS = (1, 2, 3, 5, 7, 10, 15, 20, 25, 35, 50, 75, 100, 150, 200, 250)


@dataclass(frozen=True)
class Options:
    """A grid of anchored experiments: every combination of the listed values.

    Parameters
    ----------
    anchors : number of sessions to sample, at least 1 (100 in the paper).
    rounds : number of rounds T, at least 1 (1000 in the paper).
    selections, policies : names (see `nextquery.policies.registry`) or variants, such as
        ``lin-ucb@ridge=2`` or ``max-utility@utility=log-det,optimizer=greedi,partitions=4``.
    k, epsilon, reading : options of the selection.
    alpha : α of the policies that have one; None uses each policy's default.
    schedule : ``none``, or how C grows (Algorithm 2), to at most k arms: ``bump``, ``power`` or
        ``lambert``, or a variant, such as ``power@beta=0.8,start=5``. C starts with ten arms.
    seeds : random seeds of the policies, and of selections that draw; all play the same anchors.
    anchor_seed : random seed that draws the anchors.
    encoder : the encoder's name, written to the results.
    held_out : draw anchors only from this many sessions at the end of the log, which the encoder
        has not seen (`ingest` with ``hold_out``); 0 draws from all sessions.

    >>> len(Options(k=(10, 250), policies=("lin-ucb", "random")).cells())
    4
    """

    anchors: int = 100
    rounds: int = 1000
    selections: Sequence[str] = ("max-utility",)
    policies: Sequence[str] = ("lin-ucb",)
    k: Sequence[int] = (250,)
    epsilon: Sequence[float] = (0.5,)
    reading: Sequence[str] = ("example",)
    alpha: Sequence[float | None] = (None,)
    schedule: Sequence[str] = ("none",)
    seeds: Sequence[int] = (0,)
    encoder: str = ""
    held_out: int = 0
    anchor_seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.anchors, "anchors", at_least=1)
        whole_number(self.rounds, "rounds", at_least=1)
        whole_number(self.held_out, "held_out", at_least=0)
        for k in self.k:
            whole_number(k, "k", at_least=1)
        for name, values in asdict(self).items():
            if isinstance(values, Sequence) and not isinstance(values, str) and not values:
                raise InvalidInput(f"{name} is empty. Pass at least one value.")
        self.cells()

    def cells(self) -> list["Cell"]:
        """Return the distinct cells in a fixed order."""
        cells: dict[Cell, None] = {}
        axes = (self.selections, self.reading, self.k, self.epsilon, self.schedule, self.seeds)
        for selection, reading, k, epsilon, schedule, seed in product(*axes):
            size = k if has_size(selection) else None
            sampling = (seed, self.anchors, self.held_out, self.anchor_seed)
            setting = Setting(selection, reading, size, epsilon, *sampling).checked()
            for policy, alpha in product(self.policies, self.alpha):
                if alpha is not None:
                    number(alpha, "alpha", low=0)
                name = policy if alpha is None else with_alpha(policy, alpha)
                cell = Cell(setting, name, schedule, self.rounds)
                cells[cell.checked()] = None
        return list(cells)


class Setting(NamedTuple):
    """The options that determine the candidate sets."""

    selection: str
    reading: str
    k: int | None
    epsilon: float
    seed: int
    anchors: int
    held_out: int
    anchor_seed: int

    def checked(self) -> "Setting":
        """Return self, or raise an error that names the invalid value."""
        one_of(self.reading, "reading", READINGS)
        whole_number(self.seed, "seed", at_least=0)
        whole_number(self.anchor_seed, "anchor_seed", at_least=0)
        self.selector()
        return self

    def selector(self) -> Selector:
        """Return the selector of the candidate sets."""
        return selector_named(
            self.selection, k=self.k or 1, epsilon=self.epsilon, reading=self.reading
        )

    def without_seed(self) -> "Setting":
        """Return the same for all seeds, unless the selection draws at random."""
        draws = self.selection.partition("@")[0] in _DRAWING
        return self if draws else self._replace(seed=self.anchor_seed)


class Cell(NamedTuple):
    """One curve: a setting, a policy and a number of rounds."""

    setting: Setting
    policy: str
    schedule: str
    rounds: int

    def checked(self) -> "Cell":
        """Return self, or raise an error that names the invalid value."""
        if policy_named(self.policy).needs_memory:
            raise InvalidInput(
                f"{self.policy!r} needs a memory of sessions, and an anchored experiment has none: "
                "every anchor starts from scratch. Use --protocol stream, or another policy."
            )
        growth = self.growth()
        if growth is not None:
            self._check_growth(growth)
            if self.setting.reading == "one-side":
                raise InvalidInput(
                    f"schedule {self.schedule!r} cannot grow a set in the reading one-side: the "
                    "best set of ten arms may lie on the other side of ε than the best set of k. "
                    "Use the schedule none, or another reading."
                )
        return self

    def _check_growth(self, growth: Schedule) -> None:
        selector, k = self.setting.selector(), self.setting.k or 0
        if not isinstance(selector, MaxUtility) or not selector.modular:
            raise InvalidInput(
                f"schedule {self.schedule!r} adds the best arms first (Algorithm 2). Here C is a "
                "growing part of one set, so it needs the selection max-utility with "
                f"log-probability; received {self.setting.selection!r}. Use --protocol stream, "
                "where any selection of k arms can grow."
            )
        most = Sizes(growth).at(self.rounds)
        if most > k:
            raise InvalidInput(
                f"schedule {self.schedule!r} grows to {most} arms in {self.rounds} rounds, and "
                f"k = {k} of them are selected. Pass k of at least {most}."
            )

    def growth(self) -> Schedule | None:
        """Return how C grows; None if it is complete from the start."""
        return schedule_named(self.schedule, k=self.setting.k or 1)

    @property
    def alpha(self) -> float | None:
        """The policy's α, if it has one."""
        value: float | None = policy_named(self.policy).get_params().get("alpha")
        return value


def recorded_rounds(rounds: int) -> list[int]:
    """Return the rounds at which regret is recorded: dense at first, then every fifty.

    >>> recorded_rounds(12)
    [1, 2, 3, 5, 7, 10, 12]
    """
    return sorted({t for t in (*_ROUNDS, *range(300, rounds + 1, 50), rounds) if t <= rounds})


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """Return the generator for a seed, a named purpose, and further numbers (an anchor, a batch).

    >>> generator(0, "anchors").integers(100) == generator(0, "anchors").integers(100)
    np.True_
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *numbers])


Ids = NDArray[np.int64]


class Anchors(NamedTuple):
    """The start of an anchored experiment: sampled sessions and the first query of each."""

    sessions: Ids
    arms: Ids


def sessions_of(pool: ArmPool) -> Sessions:
    """Return the sessions of the log that a pool was made from."""
    if pool.origin is None:
        raise InvalidInput(
            f"{pool!r} was not made from a log, so it has no sessions to replay. Make a pool "
            "from your log with `nextquery ingest LOG --out POOL`."
        )
    return pool.origin.sessions


def draw_anchors(sessions: Sessions, count: int, seed: int, last: int = 0) -> Anchors:
    """Draw `count` sessions at random (all, if there are fewer), and the first query of each.

    With `last`, draw only from the last `last` sessions of the log, in order of time.

    A session that repeats only its first query has no next query, and is never drawn.

    >>> toy = Sessions(np.array([4, 7, 1, 0]), np.array([0, 3, 4]), np.zeros(2))
    >>> draw_anchors(toy, 10, seed=0)
    Anchors(sessions=array([0]), arms=array([4]))
    """
    lengths = np.diff(sessions.offsets)
    first = sessions.arms[np.minimum(sessions.offsets[:-1], max(len(sessions.arms) - 1, 0))]
    another = sessions.arms != np.repeat(first, lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    eligible = np.flatnonzero(np.bincount(owner[another], minlength=len(lengths)))
    if last:
        eligible = np.intersect1d(eligible, np.argsort(sessions.times, kind="stable")[-last:])
    if not len(eligible):
        raise InvalidInput(
            f"none of the {len(lengths)} sessions has a query after its first one: there is "
            "nothing to predict. Use sessions with at least two different queries."
        )
    rng = generator(seed, "anchors")
    drawn = rng.choice(eligible, min(count, len(eligible)), replace=False)
    return Anchors(drawn, first[drawn])
