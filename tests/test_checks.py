from typing import Any

import numpy as np
import pytest

from nextquery.checks import installed, number, one_of, whole_number
from nextquery.encode import LsaEncoder
from nextquery.errors import InvalidInput


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", None, True])
def test_whole_number_says_what_it_got(value: Any) -> None:
    with pytest.raises(InvalidInput, match="k must be a whole number of at least 1; received"):
        whole_number(value, "k", at_least=1)


def test_whole_number_takes_numpy() -> None:
    assert whole_number(np.int32(3), "k", at_least=1) == 3


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), "0.5", None, True])
def test_number_says_what_is_allowed(value: Any) -> None:
    with pytest.raises(InvalidInput, match="of at least 0 and at most 1; received"):
        number(value, "epsilon", low=0, high=1)


def test_an_open_bound_is_open() -> None:
    with pytest.raises(InvalidInput, match="above 0; received 0"):
        number(0, "ridge", low=0, above_low=True)


def test_unknown_names_are_answered_with_the_known() -> None:
    with pytest.raises(InvalidInput, match="one of shared, disjoint; received 'both'"):
        one_of("both", "model", ("shared", "disjoint"))


def test_a_missing_extra_is_named_with_the_command() -> None:
    installed("replay", "json")
    with pytest.raises(
        InvalidInput, match=r"needs no_such_module.*pip install 'nextquery\[replay\]'"
    ):
        installed("replay", "json", "no_such_module")


def test_fitting_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"needs scipy.*pip install 'nextquery\[ingest\]'"):
        LsaEncoder(dim=2).fit(["red cat", "black cat"])
