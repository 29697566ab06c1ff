"""The split of sessions between named policies."""

import math
from collections.abc import Mapping

from nextquery.errors import InvalidInput
from nextquery.signing import keyed

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
