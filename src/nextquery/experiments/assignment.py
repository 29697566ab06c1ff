"""The split of sessions between policies, and team-draft interleaving of two rankings.

In every round of a draft, a fair coin decides which team picks first; each picks its best query
that is not taken. A click counts for the team that picked it. If people do not prefer one
ranking, only the coin decides whose entry is clicked. The credit is then 0 on average, given the
past.

Reference: Radlinski, Kurup and Joachims 2008, How does clickthrough data reflect retrieval
quality?
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nextquery.errors import InvalidInput
from nextquery.experiments.sequential import ALPHA, Interval, interval
from nextquery.signing import keyed

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


Shares = dict[str, float]
"""The share of sessions of each policy, in order; they sum to 1."""
_BITS = 52  # of the hash: what a float holds exactly


def parse_shares(text: str) -> Shares:
    """Read the shares of an experiment, `POLICY:SHARE` with commas or blanks between them.

    A variant has commas too; what follows one belongs to it until the next share.

    >>> parse_shares("lin-ucb-memory:0.5, most-similar-first:0.5")
    {'lin-ucb-memory': 0.5, 'most-similar-first': 0.5}
    >>> parse_shares("lin-ucb-shared@alpha=0.1,prior=none:0.9,random:0.1")
    {'lin-ucb-shared@alpha=0.1,prior=none': 0.9, 'random': 0.1}
    """
    shares: Shares = {}
    rest = text.strip()
    while rest:
        name, found, after = rest.partition(":")
        number, _, rest = after.partition(",")
        name, rest = name.strip(), rest.strip()
        share = _share(number)
        if not found or not name or share is None:
            raise _unreadable(text)
        if name in shares:
            raise InvalidInput(f"{name!r} has two shares in {text!r}. Name every policy once.")
        shares[name] = share
    if len(shares) < 2:
        raise _unreadable(text)
    total = math.fsum(shares.values())
    if abs(total - 1.0) > 1e-9:
        raise InvalidInput(f"the shares of {text!r} sum to {total:g}, and must sum to 1.")
    return shares


def with_control(shares: Mapping[str, float], control: str, share: float) -> Shares:
    """Give `share` of the sessions to a control before the others divide the rest.

    >>> with_control({"lin-ucb-memory": 1.0}, "most-similar-first", 0.05)
    {'lin-ucb-memory': 0.95, 'most-similar-first': 0.05}
    """
    if not share:
        return dict(shares)
    divided = {name: own * (1.0 - share) for name, own in shares.items()}
    divided[control] = divided.get(control, 0.0) + share
    return divided


def policy_of(session: str, shares: Mapping[str, float], *, secret: str, salt: str = "") -> str:
    """Return the policy of a session: always the same one, in these shares over all sessions.

    Who does not know the secret cannot choose a session id that gets a certain policy. Another
    `salt` (another experiment) divides the same sessions anew.

    >>> shares = {"a": 0.5, "b": 0.5}
    >>> [policy_of(session, shares, secret="s") for session in ("s-1", "s-2", "s-1", "s-3")]
    ['b', 'b', 'b', 'a']
    """
    point = (int(keyed(secret, f"experiment {salt}", session), 16) >> (256 - _BITS)) / 2.0**_BITS
    edge, name = 0.0, ""
    for name, share in shares.items():  # noqa: B007  the last one gets what rounding leaves
        edge += share
        if point < edge:
            break
    return name


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0.0 < share < 1.0 else None


def _unreadable(text: str) -> InvalidInput:
    return InvalidInput(
        f"an experiment names two or more policies with shares above 0 that sum to 1, like "
        f"lin-ucb-memory:0.5,most-similar-first:0.5; received {text!r}."
    )
