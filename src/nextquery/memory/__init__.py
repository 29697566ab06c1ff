"""Memory of sessions: which query followed which, and how often, in the log and since."""

from nextquery.memory.candidates import with_memory, without
from nextquery.memory.features import FEATURES, memory_features
from nextquery.memory.live import LiveMemory
from nextquery.memory.memory import Memory
from nextquery.memory.past import SessionMemory
from nextquery.memory.recalled import Mentions, Recalled
from nextquery.memory.seen import only_seen

__all__ = [
    "FEATURES",
    "LiveMemory",
    "Memory",
    "Mentions",
    "Recalled",
    "SessionMemory",
    "memory_features",
    "only_seen",
    "with_memory",
    "without",
]
