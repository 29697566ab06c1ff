"""Team-draft interleaving: two rankings in one slate, and whose entries are clicked.

In every round a fair coin decides which team picks first; each picks its best query that is not
taken. A click counts for the team that picked it. If people do not prefer one ranking, the coin
alone decides whose entry is clicked, so the credit is 0 on average, given all that came before.

Reference: Radlinski, Kurup and Joachims 2008, How does clickthrough data reflect retrieval quality?
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nextquery.experiments.sequential import ALPHA, Interval, interval

Item = TypeVar("Item", bound=Hashable)


class Draft(NamedTuple):
    """A merged ranking: for every place the team (0 or 1), and the place in its own ranking."""

    teams: tuple[int, ...]
    places: tuple[int, ...]


def team_draft(
    first: Sequence[Item], second: Sequence[Item], m: int, rng: np.random.Generator
) -> Draft:
    """Merge two rankings into one of up to m entries.

    >>> draft = team_draft("abc", "bcd", 3, np.random.default_rng(0))
    >>> ["abc"[place] if team == 0 else "bcd"[place] for team, place in zip(*draft)]
    ['b', 'a', 'c']
    """
    rankings, taken = (first, second), set[Item]()
    teams: list[int] = []
    places: list[int] = []
    ahead = [0, 0]  # where each team looks next
    while len(teams) < m:
        before = len(teams)
        start = int(rng.integers(2))
        for team in (start, 1 - start):
            own = rankings[team]
            while ahead[team] < len(own) and own[ahead[team]] in taken:
                ahead[team] += 1
            if ahead[team] < len(own) and len(teams) < m:
                teams.append(team)
                places.append(ahead[team])
                taken.add(own[ahead[team]])
        if len(teams) == before:
            break
    return Draft(tuple(teams), tuple(places))


class Credits:
    """Clicks by team, and the mean credit: 1 for the first team, −1 for the second.

    Assumptions: the coins are fair and unknown to those who click.

    >>> credits = Credits()
    >>> for number in range(200):
    ...     credits.add(team=int(number % 4 == 0))
    >>> [round(value, 2) for value in credits.interval()]
    [0.5, 0.23, 0.77]
    """

    def __init__(self, clicks: Sequence[int] = (0, 0)) -> None:
        self.clicks = list(clicks)

    def add(self, *, team: int) -> None:
        """Count a click on an entry of a team."""
        self.clicks[team] += 1

    def interval(self, alpha: float = ALPHA) -> Interval:
        """Return the mean credit of a click so far, with an interval that holds at any time."""
        count, total = sum(self.clicks), self.clicks[0] - self.clicks[1]
        return interval(count, float(total), float(count), (1.0, 1.0), alpha)

    def state(self) -> list[Any]:
        """Return all of it."""
        return list(self.clicks)
