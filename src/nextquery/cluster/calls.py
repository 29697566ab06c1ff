"""What goes to shards and what becomes of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from nextquery.arms.ids import NO_IDS
from nextquery.arms.kernels import Ids


class Call(NamedTuple):
    """One task for one shard, with the ids that the asking pool removed from its range."""

    task: Callable[..., Any]
    args: tuple[Any, ...] = ()
    token: int = 0
    removed: Ids = NO_IDS


class Sent(NamedTuple):
    """Calls under way, and the shards that were away already."""

    calls: Mapping[int, Call]
    refs: dict[Any, int]
    away: list[int]


class Fell(NamedTuple):
    """A call that was not answered, and what was sent in its place."""

    ref: Any  # None: there is no use in asking again
    died: bool = False
