"""The stream's recommenders by the names that results use.

Every policy of `nextquery.replay.names`, on one model for all sessions, and: ``lin-ucb-memory``
(a bandit that sees what earlier sessions say of each candidate), ``popularity``,
``similarity-support`` and ``n-gram``. A bandit called ``…@learning=off`` stops learning where
scoring begins; one called ``…@weights=off`` stops adapting its model there, but still remembers
the sessions it sees.
"""

from collections.abc import Callable

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.policies import LinUCB
from nextquery.replay.bandits import Bandit, MemoryBandit
from nextquery.replay.names import POLICIES, policy_named
from nextquery.replay.rankers import (
    MostSimilarFirst,
    NGram,
    Popularity,
    Ranker,
    SimilarityAndSupport,
)

LEARNING_OFF, WEIGHTS_OFF = "learning=off", "weights=off"
MEMORY = "lin-ucb-memory"
RIVALS: dict[str, Callable[[SessionMemory], Ranker]] = {
    "popularity": Popularity,
    "similarity-support": SimilarityAndSupport,
    "n-gram": NGram,
}


def ranker_named(
    name: str,
    pool: ArmPool,
    memory: SessionMemory,
    *,
    frozen_at: int,
    rng: np.random.Generator,
) -> Ranker:
    """A new recommender by its name in the results."""
    check_name(name)
    plain, off, rest = _parsed(name)
    frozen = frozen_at if off else None
    if plain in RIVALS:
        return RIVALS[plain](memory)
    if plain == "most-similar":
        return MostSimilarFirst()
    if plain == MEMORY:
        forgets = frozen_at if LEARNING_OFF in off else None
        policy = _memory_policy(rest)
        return MemoryBandit(
            pool, policy, memory, memory_frozen_at=forgets, rng=rng, frozen_at=frozen
        )
    return Bandit(pool, policy_named(plain + ("@" + rest) * bool(rest)), rng, frozen_at=frozen)


def check_name(name: str) -> None:
    """Refuse a name that stands for no recommender, or a variant that would change nothing."""
    plain, off, rest = _parsed(name)
    if plain in RIVALS or plain == "most-similar":
        if off or rest:
            raise InvalidInput(f"{name!r}: in the stream {plain} has no variants. Use {plain!r}.")
    elif plain == MEMORY:
        _memory_policy(rest)
    elif plain in POLICIES:
        policy_named(plain + ("@" + rest) * bool(rest))
    else:
        known = ", ".join([*POLICIES, MEMORY, *RIVALS])
        raise InvalidInput(f"policy must be one of {known}; received {name!r}.")


def _parsed(name: str) -> tuple[str, list[str], str]:
    """The plain name, what is switched off, and the other parameters of the variant."""
    plain, _, variant = name.partition("@")
    parts = [part for part in variant.split(",") if part]
    off = [part for part in parts if part in (LEARNING_OFF, WEIGHTS_OFF)]
    return plain, off, ",".join(part for part in parts if part not in off)


def _memory_policy(variant: str) -> LinUCB:
    usual = (
        "lin-ucb-shared@features=arm,alpha=0.1"
        if "alpha=" not in variant
        else ("lin-ucb-shared@features=arm")
    )
    policy = policy_named(f"{usual},{variant}" if variant else usual)
    assert isinstance(policy, LinUCB)
    return policy


def uses_selection(name: str) -> bool:
    """Whether a recommender depends on the selected candidates.

    >>> uses_selection("lin-ucb-memory"), uses_selection("popularity")
    (True, False)
    """
    return name.partition("@")[0] not in ("popularity", "n-gram")
