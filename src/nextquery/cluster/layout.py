"""The layout of a pool on a cluster: its shards, and the folder of its files."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import ray

from nextquery.arms.kernels import Ids
from nextquery.checks import number, one_of, whole_number
from nextquery.cluster.connection import alive_nodes
from nextquery.errors import ClusterUnavailable, InvalidInput

ROOM = 1 << 20  # bytes a shard requests: Ray spreads only actors that request a resource


class Layout(TypedDict, total=False):
    """The layout of a pool on a cluster: the options of `RayArmPool`."""

    address: str | None
    shards: int | None
    bounds: Sequence[int] | None
    threads: int | None
    deadline: float
    on_missing: str


class Plan(NamedTuple):
    """A checked layout with all defaults filled in."""

    bounds: Ids
    threads: int | None
    deadline: float
    on_missing: str

    @classmethod
    def of(cls, rows: int, layout: Layout) -> "Plan":
        """Return the plan for `rows` rows on the connected cluster."""
        unknown = sorted(set(layout) - Layout.__annotations__.keys())
        if unknown:
            raise InvalidInput(
                f"a RayArmPool has no option {', '.join(unknown)}. Use "
                f"{', '.join(Layout.__annotations__)}."
            )
        threads = layout.get("threads")
        return cls(
            _bounds(rows, layout.get("bounds"), layout.get("shards")),
            None if threads is None else whole_number(threads, "threads", at_least=1),
            number(layout.get("deadline", 30.0), "deadline", low=0, above_low=True),
            one_of(layout.get("on_missing", "refuse"), "on_missing", ("refuse", "partial")),
        )


def _bounds(rows: int, given: Sequence[int] | None, count: int | None) -> Ids:
    """Return where shards start and end; by default there is one per machine."""
    if given is None:
        machines = len({node["NodeManagerAddress"] for node in nodes_with_room()})
        shards = machines if count is None else whole_number(count, "shards", at_least=1)
        return np.linspace(0, rows, shards + 1).astype(np.int64)
    bounds = np.asarray(given)
    whole = bounds.ndim == 1 and len(bounds) > 1 and bounds.dtype.kind in "iu"
    in_order = whole and (bounds[1:] >= bounds[:-1]).all()
    valid = in_order and bounds[0] == 0 and bounds[-1] == rows
    if not valid or count not in (None, len(bounds) - 1):
        raise InvalidInput(
            f"bounds must rise from 0 to {rows}, with one more bound than shards; received "
            f"{given!r} and shards={count!r}."
        )
    return bounds.astype(np.int64)


def nodes_with_room() -> list[dict[str, Any]]:
    """Return the nodes that Ray may place a shard on."""
    nodes = [node for node in alive_nodes() if node["Resources"].get("memory", 0) >= ROOM]
    if not nodes:
        raise ClusterUnavailable(
            f"no node of the cluster offers Ray {ROOM} bytes of memory, which a shard needs. "
            "Start a node without --memory, or with a larger value."
        )
    return nodes


def scratch_folder() -> Path:
    """Create a temporary folder for a pool; raises an error if the cluster has other machines."""
    here = ray.util.get_node_ip_address()
    others = {node["NodeManagerAddress"] for node in alive_nodes()} - {here}
    if others:
        raise InvalidInput(
            f"the cluster has other machines ({', '.join(sorted(others))}), which cannot read a "
            "temporary folder here. Pass path, a folder that all nodes can read."
        )
    return Path(tempfile.mkdtemp(prefix="nextquery-pool-"))
