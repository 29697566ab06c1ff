"""The statistics of `/v1/stats`, shown on the page under Learning, counted event by event."""

from collections.abc import Iterable, Mapping
from time import gmtime, strftime
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from nextquery.params import as_text_array, from_text_array

_COUNTS = ("rounds", "answered", "accepted", "failed", "undelivered", "fallback")
_HOUR = 3600
Row = dict[str, object]
"""A policy, a time and its `Counts`."""


class Counts(TypedDict):
    """Slates by outcome, and the rates that follow."""

    rounds: int
    answered: int
    accepted: int
    failed: int
    undelivered: int
    fallback: int
    open: int
    acceptance: float | None
    per_round_regret: float | None


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
        self.issued, self.foreseen = 0, 0
        self.not_teaching = 0  # slates that taught nothing: capped, or left out
        self._sizes: dict[int, list[int]] = {}  # trial: slates, candidates of all of them

    def decided(self, policy: str, time: float, arms: Iterable[int], *, fallback: bool) -> None:
        """A slate was recorded."""
        shown = list(arms)
        row = self._row(policy, time)
        row["rounds"] += 1
        row["answered"] += bool(shown)
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

    def followed(self, *, foreseen: bool) -> None:
        """The next query of a slate became known."""
        self.issued += 1
        self.foreseen += foreseen

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
        shown = int(self._shown.sum())
        return {
            "arms": live,
            "arms_shown": shown,
            "share_of_arms_shown": shown / live if live else 0.0,
            "next_queries_known": self.issued,
            "share_of_next_queries_shown": self.foreseen / self.issued if self.issued else None,
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
        rows = [[*key, *counts.values()] for key, counts in sorted(self._rows.items())]
        sizes = [[trial, *size] for trial, size in sorted(self._sizes.items())]
        fields = {"rows": rows, "issued": self.issued, "foreseen": self.foreseen, "sizes": sizes}
        fields |= {"not_teaching": self.not_teaching}
        return {"counts": as_text_array(fields), "shown": np.flatnonzero(self._shown)}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> "Statistics":
        """Restore the statistics that `state` returned."""
        self, fields = cls(), from_text_array(state["counts"])
        for policy, hour, *counts in fields["rows"]:
            self._rows[policy, hour] = dict(zip(_COUNTS, counts, strict=True))
        self.issued, self.foreseen = fields["issued"], fields["foreseen"]
        self._sizes = {trial: size for trial, *size in fields.get("sizes", [])}
        self.not_teaching = fields.get("not_teaching", 0)
        shown = state["shown"]
        self._shown = np.zeros(int(shown.max(initial=-1)) + 1, np.bool_)
        self._shown[shown] = True
        return self


def _with_rates(counts: dict[str, int]) -> Counts:
    """Add what follows from the counts: still open, acceptance, regret per round."""
    closed = counts["accepted"] + counts["failed"]
    rate = counts["accepted"] / closed if closed else None
    left = counts["rounds"] - closed - counts["undelivered"]
    regret = None if rate is None else 1.0 - rate
    return {
        "rounds": counts["rounds"],
        "answered": counts["answered"],
        "accepted": counts["accepted"],
        "failed": counts["failed"],
        "undelivered": counts["undelivered"],
        "fallback": counts["fallback"],
        "open": left,
        "acceptance": rate,
        "per_round_regret": regret,
    }


def _iso(seconds: float) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))
