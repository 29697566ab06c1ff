"""The arm of a query: by its text, by what is shown, or in another form, and by nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.arms import texts
from nextquery.arms.origin import Origin, arm_in_other_form
from nextquery.arms.texts import Texts, with_any
from nextquery.sessions import Sessions

SHOWN = {
    "halpha emission": r"$H\alpha$ emission",
    "kahler metric": r"K\"ahler metric",
    "black hole": "Black hole",
    "galaxy": "Galaxy",
    "dark halo": "dark halo",
    "dark halos": "dark halos",
    "h alpha emission": r"$H_\alpha$ emission",
}


def pool_of(counts: list[int] | None = None, **options: Any) -> nq.ArmPool:
    sessions = np.array(counts or [1] * len(SHOWN))
    none = Sessions(np.empty(0, np.int64), np.array([0]), np.empty(0))
    report = {"options": {"profile": "text", **options}}
    origin = Origin(list(SHOWN.values()), sessions, sessions, none, True, report)
    return nq.ArmPool.from_vectors(list(SHOWN), np.eye(len(SHOWN)), origin=origin)


@pytest.mark.parametrize("saved", [False, True])
def test_what_is_shown_finds_its_arm(saved: bool, tmp_path: Path) -> None:
    pool = pool_of()
    if saved:
        pool.save(tmp_path)
        pool = nq.ArmPool.open(tmp_path)
    assert [pool.shown(arm) for arm in (0, 1, 2)] == ["Hα emission", "Kähler metric", "Black hole"]
    for arm, text in enumerate(list(SHOWN)):
        assert pool.find(text) == arm
        assert pool.find(SHOWN[text]) == arm
    assert pool.find("hα emission") == 0
    assert pool.find("Kähler metrics") == 1
    pool.remove([0, 6])
    assert pool.find("Hα emission") is None


def test_of_arms_that_look_the_same_the_one_of_most_sessions_then_the_first() -> None:
    assert pool_of().shown(6) == pool_of().shown(0)
    assert pool_of().find("Hα emission") == 0
    assert pool_of([1] * 6 + [2]).find("Hα emission") == 6


def test_of_several_forms_the_one_of_most_sessions_then_the_first() -> None:
    typed = "darks halos"  # of both
    assert pool_of().find(typed) == 4
    assert pool_of([1, 1, 1, 1, 1, 2, 1]).find(typed) == 5
    pool = pool_of()
    assert [pool.find(text) for text in ("dark halo", "dark halos")] == [4, 5]
    pool.remove([4])
    assert pool.find(typed) == pool.find("dark halo") == 5


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, True),
        ({"language": "en"}, True),
        ({"language": "any"}, True),
        ({"language": "fr"}, False),
        ({"profile": "sql"}, False),
    ],
)
def test_forms_are_those_of_english_words(options: dict[str, Any], found: bool) -> None:
    assert (arm_in_other_form(pool_of(**options), "black holes") == 2) is found
    assert (pool_of(**options).shown(0) == "Hα emission") is (options.get("profile") != "sql")


def test_added_arms_have_forms_too() -> None:
    pool = pool_of()
    (arm,) = pool.add(["red giant"], np.ones((1, len(SHOWN))))
    assert pool.find("Red giants") == arm


def test_known_texts_are_those_of_any_row() -> None:
    assert Texts().known(["a"]) == []
    pool = pool_of()
    assert pool.texts.known([]) == []
    pool.remove([3])
    assert pool.texts.known(["galaxy", "galaxies", "black hole"]) == ["galaxy", "black hole"]


def test_marks_are_found_in_a_column_over_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_BYTES", 3)
    words = ["", "a_b", "é", "", "c{}", "dd", "_", ""]
    column = texts.TextColumn.of(words)
    assert with_any(column, b"_{").tolist() == [1, 4, 6]
    assert with_any(texts.TextColumn.of([]), b"_").tolist() == []
