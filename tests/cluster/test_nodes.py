"""Loss of a machine: two Ray nodes, and kill -9 of everything on the second."""

import threading

import numpy as np
import pytest

from nextquery.cluster import shards
from nextquery.cluster.shards import ROOM, nodes_with_room
from nextquery.errors import ClusterUnavailable
from tests.cluster.nodes import kill, second_node
from tests.cluster.worlds import DIM, pair, same

ANCHORS = np.random.default_rng(5).normal(size=(4, DIM))


@pytest.mark.soak
def test_a_lost_node(cluster: str) -> None:
    """Its shards restart on the other node; every answer meanwhile is complete."""
    with second_node(cluster) as node:
        both = pair(shards=2)
        with both.there as pool:
            both.remove([3, 33])
            expected = both.here.nearest(ANCHORS, 15)
            same(expected, pool.nearest(ANCHORS, 15))
            before = [shard.node for shard in pool.whereabouts()]
            assert len(set(before)) == 2
            killer = threading.Timer(0.3, kill, (node.pid,))
            killer.start()
            while killer.is_alive():
                same(expected, pool.nearest(ANCHORS, 15))
            same(expected, pool.nearest(ANCHORS, 15))
            (remaining,) = {shard.node for shard in pool.whereabouts()}
            assert remaining in before


def test_only_nodes_with_memory_to_offer_count(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = nodes_with_room()
    small = {**whole, "Resources": {**whole["Resources"], "memory": ROOM - 1}}
    none = {**whole, "Resources": {"CPU": 2.0}}
    monkeypatch.setattr(shards, "alive_nodes", lambda: [small, whole, none])
    assert nodes_with_room() == [whole]
    monkeypatch.setattr(shards, "alive_nodes", lambda: [small, none])
    with pytest.raises(ClusterUnavailable, match="no node of the cluster offers"):
        nodes_with_room()


@pytest.mark.soak
def test_a_node_without_memory_to_offer_gets_no_shard(cluster: str) -> None:
    """This keeps shards off the head node, or off a small client machine."""
    with second_node(cluster, "--memory", "1000"), pair(shards=4).there as pool:
        assert len(nodes_with_room()) == 1
        (node,) = {shard.node for shard in pool.whereabouts()}
        assert node == nodes_with_room()[0]["NodeID"]
