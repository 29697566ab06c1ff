"""The shards of a pool on a cluster; a pool in this process has none."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from nextquery.arms import ArmPool


@runtime_checkable
class InShards(Protocol):
    """What the service uses of a pool on a cluster, in addition to `ArmPool`."""

    def answering(self) -> Sequence[bool]:
        """Whether each shard answers now."""

    def close(self) -> None:
        """Disconnect from the shards."""


def unavailable_shards(pool: ArmPool) -> tuple[int, list[int]]:
    """Return the number of shards, and the numbers of those that do not answer.

    >>> unavailable_shards(ArmPool.from_vectors(["cats"], [[1, 0]]))
    (0, [])
    """
    answering = pool.answering() if isinstance(pool, InShards) else []
    return len(answering), [number for number, answers in enumerate(answering) if not answers]


def leave(pool: ArmPool) -> None:
    """Close a pool that is on a cluster."""
    if isinstance(pool, InShards):
        pool.close()
