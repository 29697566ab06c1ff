"""The statistics of `/v1/stats`, shown on the page under Learning, counted event by event."""

from collections.abc import Iterable, Mapping
from time import gmtime, strftime
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import as_text_array, from_text_array

_OUTCOMES = ("rounds", "answered", "accepted", "failed", "undelivered", "fallback")
_NEXT = ("next_queries_known", "offered", "foreseen")
_COUNTS = (*_OUTCOMES, *_NEXT)
_HOUR = 3600
Row = dict[str, object]
"""A policy, a time and its `Counts`."""


class Counts(TypedDict):
    """Slates by outcome, and the rates that follow.

    `offered` counts the queries of the slates whose next query is known, and `foreseen` how many of
    these came next. The others were `wasted`: a slate that offers nothing wastes nothing.
    """

    rounds: int
    answered: int
    accepted: int
    failed: int
    undelivered: int
    fallback: int
    next_queries_known: int
    offered: int
    foreseen: int
    open: int
    acceptance: float | None
    per_round_regret: float | None
    share_wasted: float | None


class Coverage(TypedDict):
    """How much of the pool was shown, and how often the next query was shown."""

    arms: int
    arms_shown: int
    share_of_arms_shown: float
    next_queries_known: int
    share_of_next_queries_shown: float | None


class Size(TypedDict):
    """The mean number of candidates of the slates that were the `trial`-th of their session."""

    trial: int
    slates: int
    candidates: float


class Statistics:
    """Counts by policy and hour, and which arms were ever shown.

    >>> stats = Statistics()
    >>> stats.decided("lin-ucb", 7200.0, [4, 5], fallback=False)
    >>> stats.closed("lin-ucb", 7200.0, "open", "accepted")
    >>> stats.table("hour")[0]["acceptance"]
    1.0
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, int]] = {}
        self._shown = np.zeros(0, np.bool_)
        self.not_teaching = 0  # slates that taught nothing: capped, or left out
        self._sizes: dict[int, list[int]] = {}  # trial: slates, candidates of all of them

    def decided(self, policy: str, time: float, arms: Iterable[int], *, fallback: bool) -> None:
        """A slate was recorded."""
        slate = list(arms)
        shown = [arm for arm in slate if arm >= 0]  # a person's own queries are not counted
        row = self._row(policy, time)
        row["rounds"] += 1
        row["answered"] += bool(slate)
        row["fallback"] += fallback
        if shown and max(shown) >= len(self._shown):
            grown = np.zeros(max(2 * len(self._shown), max(shown) + 1), np.bool_)
            grown[: len(self._shown)] = self._shown
            self._shown = grown
        self._shown[shown] = True

    def drawn_from(self, trial: int, candidates: int) -> None:
        """A slate, the `trial`-th of its session, was drawn from this many candidates."""
        size = self._sizes.setdefault(trial, [0, 0])
        size[0] += 1
        size[1] += candidates

    def sizes(self) -> list[Size]:
        """Return the mean number of candidates of a slate, by its number in the session.

        >>> stats = Statistics()
        >>> stats.drawn_from(1, 250)
        >>> stats.drawn_from(1, 240)
        >>> stats.sizes()
        [{'trial': 1, 'slates': 2, 'candidates': 245.0}]
        """
        return [
            {"trial": trial, "slates": slates, "candidates": total / slates}
            for trial, (slates, total) in sorted(self._sizes.items())
        ]

    def closed(self, policy: str, time: float, was: str, state: str) -> None:
        """A slate went from one state to another; `time` is the time of its decision."""
        row = self._row(policy, time)
        if was in row:
            row[was] -= 1
        if state in row:
            row[state] += 1

    def followed(
        self, policy: str, time: float, *, offered: int, foreseen: bool, before: bool | None = None
    ) -> None:
        """The next query of a slate became known.

        Parameters
        ----------
        policy, time : of the decision.
        offered : number of queries in the slate.
        foreseen : whether the next query was one of them.
        before : what was known as `foreseen` earlier, if this is a correction.

        >>> stats = Statistics()
        >>> stats.followed("lin-ucb", 0.0, offered=4, foreseen=True)
        >>> stats.followed("lin-ucb", 0.0, offered=0, foreseen=False)
        >>> stats.totals()["share_wasted"]
        0.75
        """
        row = self._row(policy, time)
        if before is None:
            row["next_queries_known"] += 1
            row["offered"] += offered
        row["foreseen"] += foreseen - bool(before)

    def table(self, by: str) -> list[Row]:
        """Return one row per policy and hour or day."""
        length = _HOUR if by == "hour" else 24 * _HOUR
        sums: dict[tuple[str, int], dict[str, int]] = {}
        for (policy, hour), counts in self._rows.items():
            row = sums.setdefault((policy, hour * _HOUR // length), dict.fromkeys(_COUNTS, 0))
            for name in _COUNTS:
                row[name] += counts[name]
        return [
            {"policy": policy, "from": _iso(at * length), **_with_rates(counts)}
            for (policy, at), counts in sorted(sums.items(), key=lambda item: item[0][::-1])
        ]

    def totals(self) -> Counts:
        """Return everything in one row."""
        counts = {name: sum(row[name] for row in self._rows.values()) for name in _COUNTS}
        return _with_rates(counts)

    def coverage(self, live: int) -> Coverage:
        """Return how much of the pool was shown, and how often the next query was shown."""
        shown, totals = int(self._shown.sum()), self.totals()
        known = totals["next_queries_known"]
        return {
            "arms": live,
            "arms_shown": shown,
            "share_of_arms_shown": shown / live if live else 0.0,
            "next_queries_known": known,
            "share_of_next_queries_shown": totals["foreseen"] / known if known else None,
        }

    def _row(self, policy: str, time: float) -> dict[str, int]:
        return self._rows.setdefault((policy, int(time // _HOUR)), dict.fromkeys(_COUNTS, 0))

    def copy(self) -> "Statistics":
        """Return an independent copy."""
        twin = Statistics()
        twin.__dict__.update(self.__dict__)
        twin._rows = {key: dict(counts) for key, counts in self._rows.items()}
        twin._sizes = {trial: list(size) for trial, size in self._sizes.items()}
        twin._shown = self._shown.copy()
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays."""
        rows = sorted(self._rows.items())
        outcomes = [[*key, *(counts[name] for name in _OUTCOMES)] for key, counts in rows]
        following = [[counts[name] for name in _NEXT] for _, counts in rows]
        sizes = [[trial, *size] for trial, size in sorted(self._sizes.items())]
        fields = {"rows": outcomes, "sizes": sizes, "not_teaching": self.not_teaching}
        return {
            "counts": as_text_array(fields),
            "next_queries": np.array(following, np.int64).reshape(-1, len(_NEXT)),
            "shown": np.flatnonzero(self._shown),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> "Statistics":
        """Restore the statistics that `state` returned."""
        self, fields = cls(), from_text_array(state["counts"])
        following = state["next_queries"].tolist()
        for (policy, hour, *counts), more in zip(fields["rows"], following, strict=True):
            self._rows[policy, hour] = dict(zip(_COUNTS, [*counts, *more], strict=True))
        self._sizes = {trial: size for trial, *size in fields["sizes"]}
        self.not_teaching = fields["not_teaching"]
        shown = state["shown"]
        self._shown = np.zeros(int(shown.max(initial=-1)) + 1, np.bool_)
        self._shown[shown] = True
        return self


def _with_rates(counts: dict[str, int]) -> Counts:
    """Add what follows from the counts: still open, acceptance, regret per round."""
    closed = counts["accepted"] + counts["failed"]
    rate = counts["accepted"] / closed if closed else None
    left, offered = counts["rounds"] - closed - counts["undelivered"], counts["offered"]
    regret = None if rate is None else 1.0 - rate
    return {
        "rounds": counts["rounds"],
        "answered": counts["answered"],
        "accepted": counts["accepted"],
        "failed": counts["failed"],
        "undelivered": counts["undelivered"],
        "fallback": counts["fallback"],
        "next_queries_known": counts["next_queries_known"],
        "offered": offered,
        "foreseen": counts["foreseen"],
        "open": left,
        "acceptance": rate,
        "per_round_regret": regret,
        "share_wasted": 1.0 - counts["foreseen"] / offered if offered else None,
    }


def _iso(seconds: float) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))
