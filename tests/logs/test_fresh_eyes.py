"""Leaks found by a first-time reader, as regression tests."""

from pathlib import Path

import pytest

from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, QueryCleaner, prepare


@pytest.mark.parametrize(
    "query",
    [
        "john.doe @ gmail.com",
        "john.doe @gmail.com",
        "john.doe@gmail",
        "handy 0170 1234567",
        "0151/12345678 wer ruft an",
        "phone 15800138000",
        "caller 98765 43210",
        "my password is hunter2secret",
        "password hunter2",
        "jane.doe@localhost",
        "token: abcdefsecrettok3",
        "api_key=abcdef123456",
        "session=abcdef123456",
        "basic dXNlcjpzZWNyZXQ=",
    ],
)
def test_private_text_is_detected(query: str) -> None:
    assert QueryCleaner()(query).private is not None


@pytest.mark.parametrize(
    "query",
    [
        "covid 19 2020 2021",
        "session types for pi calculus",
        "token ring networks",
        "SETI@home and public computing",
        "password managers compared 2024",
        "basic linear algebra subprograms",
        "some basic astronomical phenomena",
        "Loc-Auth: Location-Enabled Authentication",
        "Token: a survey of distributed ledgers",
        "secret sharing schemes",
        "password hashing competition",
        "arxiv 2101 12345",
        "spin 1/2 chains @ low temperature",
    ],
)
def test_science_is_not_taken_for_private(query: str) -> None:
    assert QueryCleaner()(query).private is None


@pytest.mark.parametrize("other", ["", "NULL", "-", "anonymous"])
def test_rows_without_a_user_do_not_count_as_users(tmp_path: Path, other: str) -> None:
    rows = ["user_id,session_id,timestamp,query"]
    for user, session in (("carl", "s1"), (other, "s2"), ("dora", "s3"), ("emil", "s4")):
        queries = ["tea", "cup", "pot", "milk"]
        if user in ("carl", other):
            queries.append("carl smith hiv test")
        rows += [f"{user},{session},2024-01-01 10:0{i}:00,{q}" for i, q in enumerate(queries)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(rows) + "\n")
    prepared = prepare(log)
    assert "carl smith hiv test" not in prepared.texts
    assert sorted(prepared.texts) == ["cup", "milk", "pot", "tea"]
    assert prepared.user_counts.tolist() == [3, 3, 3, 3]
    assert "carl smith hiv test" in prepare(log, LogOptions(min_users=1)).texts


def test_the_error_for_a_file_without_a_header_does_not_quote_it(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("s1,2024-01-01,jane.roe@example.com hiv clinic\n" * 3)
    with pytest.raises(InvalidInput, match="must name the columns") as error:
        prepare(log)
    assert "jane" not in str(error.value)
    assert "hiv" not in str(error.value)
