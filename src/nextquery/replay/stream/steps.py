"""What happened at the scored steps of a stream: of every contestant, and of the log itself."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.memory import SessionMemory
from nextquery.sessions import Ids

ANSWERS = ("own", "return", "others", "new")
"""Where an answer was before, by the clock; a new one cannot be foreseen."""


class StepResult(NamedTuple):
    """What a contestant did at the step at a place; see `StepResults`."""

    place: int
    rank: int
    covered: bool
    kind: int
    offered: int
    forecast_rank: int
    probabilities: Sequence[float]


class StepResults(NamedTuple):
    """One contestant at every scored step.

    Parameters
    ----------
    ranks : rank of the answer among the queries offered; 0: not among the first 20.
    covered : whether it was a candidate.
    kinds : of which kind (-1: none; see `memory.KINDS`).
    offered : how many queries were offered, at most 20.
    forecast_ranks : rank of the answer in the forecast; 0: not among the 20 likeliest.
    probabilities : of each query of the forecast, one step after the other. A rival forecasts what
        it offers, and its shares stand in for probabilities.
    forecast_sizes : how many queries the forecast of each step has.
    """

    ranks: Ids
    covered: NDArray[np.bool_]
    kinds: Ids
    offered: Ids
    forecast_ranks: Ids
    probabilities: NDArray[np.float32]
    forecast_sizes: Ids

    @classmethod
    def of(cls, rows: Iterable[StepResult]) -> "StepResults":
        """Collect the steps."""
        steps = list(rows)
        table = np.array([step[1:6] for step in steps], np.int64).reshape(-1, 5)
        likely = [step.probabilities for step in steps]
        return cls(
            table[:, 0],
            table[:, 1] > 0,
            table[:, 2],
            table[:, 3],
            table[:, 4],
            np.array([value for row in likely for value in row], np.float32),
            np.array([len(row) for row in likely], np.int64),
        )


def answers_by_kind(past: SessionMemory, places: Ids) -> Ids:
    """Return where the answer of each step was before, as a number of `ANSWERS`.

    ``return``: earlier in the same session; else ``own``: in another session of the same person;
    else ``others``: in any session; else ``new``. All dated before the current query.
    """
    sessions, known = past.sessions, past.known_at(places)
    arms, answers = sessions.arms, places + 1
    session = np.repeat(np.arange(sessions.size), sessions.lengths)
    people = sessions.people[session] if len(sessions.people) else np.full(len(arms), -1)
    place = np.arange(len(arms))
    returned = _first(session, arms, place)[answers] <= places
    own = (people[answers] >= 0) & (_first(people, arms, past.positions)[answers] < known)
    asked = _first(np.zeros_like(arms), arms, past.positions)[answers] < known
    kinds = [ANSWERS.index(kind) for kind in ("return", "own", "others")]
    return np.select([returned, own, asked], kinds, ANSWERS.index("new"))


def _first(groups: Ids, arms: Ids, when: Ids) -> Ids:
    """Return, for every query, when its arm was first asked in its group.

    >>> _first(np.array([0, 0, 1]), np.array([7, 7, 7]), np.array([5, 3, 4])).tolist()
    [3, 3, 4]
    """
    order = np.lexsort((when, arms, groups))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(groups[order]) != 0) | (np.diff(arms[order]) != 0)
    first = np.empty_like(when)
    first[order] = when[order][new][np.cumsum(new) - 1]
    return first
