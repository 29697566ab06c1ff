"""The contestants of a stream, by name: the recommender with any registered policy, and rivals.

A recommender named ``…@learning=off`` stops learning when the stream starts. One named
``…@weights=off`` keeps its model from then on, but still remembers the sessions it sees. One named
``…@personal=off`` uses nobody's own past. One named ``…@at_least=0.05`` recommends only what has
this calibrated probability or more.
"""

from typing import NamedTuple

from nextquery.checks import number, one_of
from nextquery.policies import MostSimilar, Policy, RandomPolicy
from nextquery.policies.registry import POLICIES, joined, live_policy, split
from nextquery.research.rivals.registry import RIVALS, TRAINED, rival_class, rival_named
from nextquery.sessions import Sessions

LEARNING_OFF, WEIGHTS_OFF, PERSONAL_OFF = "learning=off", "weights=off", "personal=off"


class Contestant(NamedTuple):
    """A rival, or a policy and what it may learn while it is scored."""

    rival: str | None
    policy: Policy | None = None
    weights: bool = True
    memory: bool = True
    personal: bool = True
    at_least: float = 0.0

    @property
    def uses_selection(self) -> bool:
        """Whether it depends on the selected candidates."""
        return self.rival is None or rival_class(self.rival).uses_selection

    @property
    def half_life(self) -> float | None:
        """The half-life of its policy, in days; its memory has the same."""
        return None if self.policy is None else self.policy.get_params().get("half_life")

    @property
    def learns(self) -> bool:
        """Whether its policy learns, so that exploration can help."""
        return self.policy is not None and not isinstance(self.policy, MostSimilar | RandomPolicy)


def contestant(name: str, seed: int = 0) -> Contestant:
    """Return the contestant with a name, or raise an error that lists the valid names.

    >>> contestant("lin-ucb-memory@weights=off").memory, contestant("n-gram").rival
    (True, 'n-gram')
    """
    plain, parameters = split(name)
    one_of(plain, "policy", (*POLICIES, *RIVALS, *TRAINED))
    if plain in RIVALS or plain in TRAINED:
        rival_named(name, Sessions.of([]))  # raises if it has no such variant
        return Contestant(name)
    switches = ("learning", "weights", "personal")
    off = [key for key in switches if parameters.get(key) == "off"]
    least = number(parameters.get("at_least", 0.0), f"at_least in {name!r}", low=0, high=1)
    kept = {key: value for key, value in parameters.items() if key not in (*off, "at_least")}
    policy = live_policy(joined(plain, kept), seed=seed)
    return Contestant(
        None,
        policy,
        weights="weights" not in off and "learning" not in off,
        memory="learning" not in off,
        personal="personal" not in off,
        at_least=least,
    )
