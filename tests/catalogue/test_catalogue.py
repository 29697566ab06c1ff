"""What a remembered query is now: it follows every change of the arms and of the blocked texts."""

import numpy as np
import pytest

import nextquery as nq
from nextquery.catalogue.catalogue import Catalogue
from nextquery.logs.private_text import Cleaned


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


def test_another_form_of_an_arm_is_that_arm() -> None:
    pool = nq.ArmPool.from_vectors(["black hole", "black holes", "halo"], np.eye(3))
    catalogue = Catalogue(pool)
    assert [catalogue.place(text).arm for text in ("black hole", "black holes")] == [0, 1]
    place = catalogue.place("halos")
    assert (place.arm, place.query, place.shown, place.text) == (2, "halos", "halos", "halo")
    assert catalogue.own_id("halos") == 2
    assert catalogue.find_exactly("halos") is None
    assert catalogue.block("halos") == "halos"  # operators mean what they say
    assert catalogue.hidden_arms().tolist() == []
    catalogue.remove(1)
    assert catalogue.place("black holes").arm == 0


def test_a_form_of_what_was_removed_or_blocked_never_becomes_an_arm() -> None:
    pool = nq.ArmPool.from_vectors(["black hole", "halo"], np.eye(2))
    catalogue = Catalogue(pool, Ones())
    assert catalogue.place("wormholes").may_become_arm
    catalogue.block("wormhole")
    assert not catalogue.place("wormholes").may_become_arm
    catalogue.unblock("wormhole")
    assert catalogue.place("wormholes").may_become_arm
    catalogue.remove(0)
    removed = catalogue.place("black holes")
    assert (removed.arm, removed.may_become_arm) == (None, False)
    assert catalogue.own_id("black holes") is None  # hidden from who asked it, too
    assert catalogue.own_id("red holes") == -1
    catalogue.block("halo")
    assert catalogue.place("halos").arm == 1  # blocked, and so never shown, under any form
    assert catalogue.hidden_arms().tolist() == [1]


class Ones:
    """An encoder that knows every word."""

    def encode(self, texts: list[str], /) -> np.ndarray:
        """Return the same row for every text."""
        return np.ones((len(texts), 2), np.float32)


def test_a_query_that_is_an_arm_as_typed_is_not_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue(nq.ArmPool.from_vectors(["cats", "stocks"], np.eye(2)))
    cleaned: list[str] = []
    clean = catalogue.clean

    def counted(query: str) -> Cleaned:
        cleaned.append(query)
        return clean(query)

    monkeypatch.setattr(catalogue, "clean", counted)
    assert (catalogue.find("cats"), cleaned) == (0, [])  # cleaning takes milliseconds
    assert (catalogue.find(" cats "), set(cleaned)) == (0, {" cats "})
