"""Calls to shards, and their state."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from nextquery.arms.kernels import Ids
from nextquery.arms.pool import NO_IDS


class Call(NamedTuple):
    """One task for one shard, with the ids in its range that the calling pool has removed."""

    task: Callable[..., Any]
    args: tuple[Any, ...] = ()
    token: int = 0
    removed: Ids = NO_IDS


class Sent(NamedTuple):
    """Calls in progress, and the shards that were already unavailable."""

    calls: Mapping[int, Call]
    refs: dict[Any, int]
    unavailable: list[int]


class Failed(NamedTuple):
    """A call without an answer, and the call sent in its place."""

    ref: Any  # None: not sent again, because it would fail again
    died: bool = False
