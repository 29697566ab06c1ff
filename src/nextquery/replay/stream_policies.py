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
from nextquery.policies import LinUCB
from nextquery.replay.bandits import Bandit, MemoryBandit
from nextquery.replay.memory import SessionMemory
from nextquery.replay.names import POLICIES, policy_named
from nextquery.replay.rankers import (
    MostSimilarFirst,
    NGram,
    Popularity,
    Ranker,
    SimilarityAndSupport,
)

LEARNING_OFF, WEIGHTS_OFF = "learning=off", "weights=off"
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
    plain, _, variant = name.partition("@")
    parts = [part for part in variant.split(",") if part]
    frozen = frozen_at if {LEARNING_OFF, WEIGHTS_OFF} & set(parts) else None
    forgets = frozen_at if LEARNING_OFF in parts else None
    rest = ",".join(part for part in parts if part not in (LEARNING_OFF, WEIGHTS_OFF))
    if plain in RIVALS:
        return RIVALS[plain](memory)
    if plain == "most-similar":
        return MostSimilarFirst()
    if plain == "lin-ucb-memory":
        policy = LinUCB(alpha=0.1, ridge=1.0, model="shared", features="arm", prior="preference")
        return MemoryBandit(
            pool, policy, memory, memory_frozen_at=forgets, rng=rng, frozen_at=frozen
        )
    if plain not in POLICIES:
        known = ", ".join([*POLICIES, "lin-ucb-memory", *RIVALS])
        raise InvalidInput(f"policy must be one of {known}; received {name!r}.")
    return Bandit(pool, policy_named(plain + ("@" + rest) * bool(rest)), rng, frozen_at=frozen)


def uses_selection(name: str) -> bool:
    """Whether a recommender depends on the selected candidates.

    >>> uses_selection("lin-ucb-memory"), uses_selection("popularity")
    (True, False)
    """
    return name.partition("@")[0] not in ("popularity", "n-gram")
