"""The contestants of a stream, by name: the recommender with any registered policy, and rivals.

A recommender named ``…@learning=off`` stops learning when scoring starts. One named
``…@weights=off`` keeps its model from then on, but still remembers the sessions it sees.
"""

from typing import NamedTuple

from nextquery.checks import one_of
from nextquery.errors import InvalidInput
from nextquery.policies import MostSimilar, Policy, RandomPolicy
from nextquery.policies.names import POLICIES, joined, policy_named, split
from nextquery.replay.stream.session_rivals import RIVALS

LEARNING_OFF, WEIGHTS_OFF = "learning=off", "weights=off"


class Contestant(NamedTuple):
    """A rival, or a policy and what it may learn while it is scored."""

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
        """Whether its policy learns, so that exploration can help."""
        return not isinstance(self.policy, MostSimilar | RandomPolicy)


def contestant(name: str, seed: int = 0) -> Contestant:
    """Return the contestant with a name, or raise an error that lists the valid names.

    >>> contestant("lin-ucb-memory@weights=off").memory, contestant("n-gram").rival
    (True, 'n-gram')
    """
    plain, parameters = split(name)
    one_of(plain, "policy", (*POLICIES, *RIVALS))
    if plain in RIVALS:
        if parameters:
            raise InvalidInput(f"{name!r}: {plain} has no variants in the stream. Use {plain!r}.")
        return Contestant(plain)
    off = [key for key in ("learning", "weights") if parameters.pop(key, None) == "off"]
    policy = policy_named(joined(plain, parameters), seed=seed)
    return Contestant(None, policy, weights=not off, memory="learning" not in off)
