"""What earlier sessions say of the next query: who followed whom, and how often."""

from nextquery.memory.features import FEATURES, Recalled, memory_features
from nextquery.memory.past import SessionMemory
from nextquery.memory.seen import only_seen

__all__ = [
    "FEATURES",
    "Recalled",
    "SessionMemory",
    "memory_features",
    "only_seen",
]
