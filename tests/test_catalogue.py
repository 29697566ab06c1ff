"""What a remembered query is now: it follows every change of the arms and of the blocked texts."""

import numpy as np

import nextquery as nq
from nextquery.catalogue import Catalogue


def test_a_remembered_query_follows_every_change() -> None:
    pool = nq.ArmPool.from_vectors(["cats", "dogs"], np.eye(2))
    catalogue, vector = Catalogue(pool), np.ones(2, np.float32)
    assert [catalogue.own_id(text) for text in ("cats", "mine", "other")] == [0, -1, -1]
    arm = catalogue.add("mine", vector)
    assert catalogue.own_id("mine") == arm
    catalogue.remove(arm)
    assert catalogue.own_id("mine") is None  # a removed arm stays removed
    catalogue.block("other")
    assert catalogue.own_id("other") is None
    catalogue.unblock("other")
    assert catalogue.own_id("other") == -1
    added = int(pool.add(["other"], [[1, 2]])[0])  # not through the catalogue
    assert catalogue.own_id("other") == added
    catalogue.block_text("dogs")
    assert catalogue.own_id("dogs") is None
