"""One set of limits: the library and the HTTP routes accept and reject the same inputs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nextquery.errors import InvalidInput
from nextquery.service.engine.requests import check_id, check_query, check_slate_length
from nextquery.service.http.bodies import ForecastBody
from nextquery.service.log.schema import LONGEST_ID, LONGEST_QUERY, MOST_RECOMMENDATIONS, decisions
from nextquery.service.settings import EngineOptions

TRICKY = st.text(st.sampled_from("a \t\n\r\x00\x1f\x7f\x85\u200b\u202e\u2028é猫"), max_size=6)


def accepts(check: Any, *arguments: Any) -> Any:
    try:
        return check(*arguments)
    except (InvalidInput, ValidationError):
        return None


@given(TRICKY)
def test_both_doors_accept_the_same(text: str) -> None:
    body = accepts(lambda: ForecastBody(session_id="s", query=text))
    assert accepts(check_query, text) == (body and body.query)
    body = accepts(lambda: ForecastBody(session_id=text, query="q"))
    assert accepts(check_id, text, "session_id") == (body and body.session_id)


def test_the_limits_are_those_of_the_tables() -> None:
    assert decisions.c.session_id.type.length == LONGEST_ID  # type: ignore[attr-defined]
    assert check_id("x" * LONGEST_ID, "id")
    with pytest.raises(InvalidInput, match=f"1 to {LONGEST_ID} characters"):
        check_id("x" * (LONGEST_ID + 1), "id")
    assert check_query("x" * LONGEST_QUERY)
    with pytest.raises(InvalidInput, match=f"1 to {LONGEST_QUERY} characters"):
        check_query("x" * (LONGEST_QUERY + 1))


def test_slates_are_limited_by_one_number() -> None:
    assert EngineOptions(m_max=MOST_RECOMMENDATIONS).m_max == MOST_RECOMMENDATIONS
    with pytest.raises(InvalidInput, match=f"at most {MOST_RECOMMENDATIONS}; received 101"):
        EngineOptions(m_max=MOST_RECOMMENDATIONS + 1)
    with pytest.raises(InvalidInput, match="at most 5; received 6"):
        check_slate_length(6, 5)


def test_invisible_characters_are_dropped() -> None:
    assert check_query("ca\u200bts\u202e") == "cats"
    with pytest.raises(InvalidInput, match="not blank"):
        check_query("\u200b \u202e")
