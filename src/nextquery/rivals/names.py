"""The registry of rivals, by the names used in the library, in replay and in the documentation.

A variant sets parameters: ``stan@session_days=365``. To add a rival, write its file and add a line
here. No name is also the name of a policy.
"""

from nextquery.checks import one_of
from nextquery.memory import SessionMemory
from nextquery.policies.names import known_params, split
from nextquery.rivals.base import Rival
from nextquery.rivals.n_gram import NGram
from nextquery.rivals.popularity import Popularity
from nextquery.rivals.sequential_rules import SequentialRules
from nextquery.rivals.similarity_support import SimilarityAndSupport
from nextquery.rivals.stan import Stan
from nextquery.rivals.vs_knn import VsKnn
from nextquery.sessions import AnySessions, Sessions

__all__ = ["RIVALS", "rival_named"]

RIVALS: dict[str, type[Rival]] = {
    "popularity": Popularity,
    "similarity-support": SimilarityAndSupport,
    "n-gram": NGram,
    "sr": SequentialRules,
    "vs-knn": VsKnn,
    "stan": Stan,
}

_NOTHING = SessionMemory(Sessions.of([]))


def rival_named(name: str, memory: SessionMemory | AnySessions) -> Rival:
    """Create a rival by name, over a memory or sessions.

    >>> from nextquery.rivals import Step
    >>> rival = rival_named("sr@steps=1", [[0, 1, 2], [0, 2]])
    >>> rival.rank(Step(before=len(rival.memory), history=[0]), 5).tolist()
    [1, 2]
    """
    plain, given = split(name)
    kind = RIVALS[one_of(plain, "rival", RIVALS)]
    own = kind(_NOTHING).get_params()
    params = known_params(name, given, own, example="stan@session_days=365")
    if not isinstance(memory, SessionMemory):
        memory = SessionMemory(Sessions.of(memory))
    return kind(memory, **params)
