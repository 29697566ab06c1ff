"""A machine is lost: two Ray nodes, and kill -9 of everything on the second."""

import threading

import numpy as np

from nextquery.cluster.layout import nodes_with_room
from tests.cluster.nodes import kill, second_node
from tests.cluster.worlds import DIM, pair, same

ANCHORS = np.random.default_rng(5).normal(size=(4, DIM))


def test_a_lost_node(cluster: str) -> None:
    """Its shards start again on the other node; every answer meanwhile is complete."""
    with second_node(cluster) as node:
        both = pair(shards=4)
        with both.there as pool:
            both.remove([3, 33])
            wanted = both.here.nearest(ANCHORS, 15)
            same(wanted, pool.nearest(ANCHORS, 15))
            there = [shard.node for shard in pool.whereabouts()]
            assert len(set(there)) == 2
            killer = threading.Timer(0.3, kill, (node.pid,))
            killer.start()
            while killer.is_alive():
                same(wanted, pool.nearest(ANCHORS, 15))
            same(wanted, pool.nearest(ANCHORS, 15))
            (left,) = {shard.node for shard in pool.whereabouts()}
            assert left in there


def test_a_node_without_memory_to_offer_gets_no_shard(cluster: str) -> None:
    """So one keeps them from the head, or from a small machine that only asks."""
    with second_node(cluster, "--memory", "1000"), pair(shards=4).there as pool:
        assert len(nodes_with_room()) == 1
        (held,) = {shard.node for shard in pool.whereabouts()}
        assert held == nodes_with_room()[0]["NodeID"]
