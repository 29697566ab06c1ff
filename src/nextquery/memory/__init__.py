"""Memory of sessions: which query followed which, how often, and whose it was."""

from nextquery.memory.features import (
    FEATURES,
    KINDS,
    Reason,
    Recalled,
    kind_of,
    memory_features,
    reason_of,
    similar,
)
from nextquery.memory.live import LiveMemory
from nextquery.memory.memory import NOW, Memory, Moment, with_memory, without
from nextquery.memory.own import Key, OwnPast, People
from nextquery.memory.past import Mentions, SessionMemory, only_seen

__all__ = [
    "FEATURES",
    "KINDS",
    "NOW",
    "Key",
    "LiveMemory",
    "Memory",
    "Mentions",
    "Moment",
    "OwnPast",
    "People",
    "Reason",
    "Recalled",
    "SessionMemory",
    "kind_of",
    "memory_features",
    "only_seen",
    "reason_of",
    "similar",
    "with_memory",
    "without",
]
