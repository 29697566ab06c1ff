"""What a pool in several parts says of them; a pool in one part says nothing."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from nextquery.arms import ArmPool


@runtime_checkable
class InShards(Protocol):
    """What the service asks of a pool on a cluster, beside all that an `ArmPool` does."""

    def answering(self) -> Sequence[bool]:
        """Whether each shard answers now."""

    def close(self) -> None:
        """Leave the shards."""


def shards_of(pool: ArmPool) -> dict[str, Any]:
    """How many shards there are, how many are away, and which.

    >>> shards_of(ArmPool.from_vectors(["cats"], [[1, 0]]))
    {'shards': 0, 'shards_away': 0, 'away': []}
    """
    answering = pool.answering() if isinstance(pool, InShards) else []
    away = [number for number, answers in enumerate(answering) if not answers]
    return {"shards": len(answering), "shards_away": len(away), "away": away}


def leave(pool: ArmPool) -> None:
    """Close a pool that has something to close."""
    if isinstance(pool, InShards):
        pool.close()
