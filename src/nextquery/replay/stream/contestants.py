"""Who runs in a stream, by name: the recommender with any policy of the registry, and rivals.

A recommender called ``…@learning=off`` stops learning where scoring begins; one called
``…@weights=off`` keeps its model there, but still remembers the sessions it sees.
"""

from typing import NamedTuple

from nextquery.checks import one_of
from nextquery.errors import InvalidInput
from nextquery.policies import MostSimilar, Policy, RandomPolicy
from nextquery.policies.names import POLICIES, joined, policy_named, split
from nextquery.replay.stream.session_rivals import RIVALS

LEARNING_OFF, WEIGHTS_OFF = "learning=off", "weights=off"


class Contestant(NamedTuple):
    """What a name stands for: a rival, or a policy and what it may learn while it is scored."""

    rival: str | None
    policy: Policy | None = None
    weights: bool = True
    memory: bool = True

    @property
    def uses_selection(self) -> bool:
        """Whether it depends on the selected candidates."""
        return self.rival not in ("popularity", "n-gram")

    @property
    def explores(self) -> bool:
        """Whether its policy learns, so that exploring may pay."""
        return not isinstance(self.policy, MostSimilar | RandomPolicy)


def contestant(name: str, seed: int = 0) -> Contestant:
    """The contestant of a name, or an error that says what is allowed.

    >>> contestant("lin-ucb-memory@weights=off").memory, contestant("n-gram").rival
    (True, 'n-gram')
    """
    plain, given = split(name)
    one_of(plain, "policy", (*POLICIES, *RIVALS))
    if plain in RIVALS:
        if given:
            raise InvalidInput(f"{name!r}: in the stream {plain} has no variants. Use {plain!r}.")
        return Contestant(plain)
    off = [key for key in ("learning", "weights") if given.pop(key, None) == "off"]
    policy = policy_named(joined(plain, given), seed=seed)
    return Contestant(None, policy, weights=not off, memory="learning" not in off)
