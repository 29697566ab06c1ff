"""Private text must not appear in any field of a prepared log or in its report."""

import json
from pathlib import Path

import pytest

from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, Prepared, prepare
from tests.logs.conftest import Write, pattern_of


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("jane.doe@example.com", "email"),
        ("mail jane%40example.com", "email"),
        ("mail jane%2540example.com", "email"),  # escaped twice
        ("jane＠example.com", "email"),
        ("jane at example dot com", "email"),
        ("jane@example com", "email"),
        ("call +44 20 7946 0958", "phone"),
        ("(212) 555-0123 who", "phone"),
        ("212-555-0123", "phone"),
        ("who is 212 555 0123", "phone"),
        ("01 23 45 67 89 paris", "phone"),
        ("whose number 07911123456", "phone"),
        ("4111 1111 1111 1111", "card"),
        ("my visa 4111-1111-1111-1111 123", "card"),
        ("card4111111111111111", "card"),
        ("4111+1111+1111+1111", "card"),
        ("4111/1111/1111/1111", "card"),
        ("4111\u20111111\u20111111\u20111111", "card"),
        ("amex 3782 822463 10005", "card"),
        ("iban DE89 3704 0044 0532 0130 00", "iban"),
        ("gb82west12345698765432", "iban"),
        ("ssn 078-05-1120", "ssn"),
        ("social security number 078051120", "ssn"),
        ("nino AB 12 34 56 C", "national-id"),
        ("dni 12345678Z", "spanish-id"),
        ("sin 130 692 544", "canadian-id"),
        ("https://jane:secret@example.org/", "url-secret"),
        ("https://example.org/?access_token=abc123", "url-secret"),
        ("https%3A%2F%2Fexample.org%2F%3Fapi_key%3Dabc", "url-secret"),
        ("AKIAIOSFODNN7EXAMPLE", "credential"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "credential"),
        ("password: hunter2", "credential"),
    ],
)
def test_private_text_is_recognised(raw: str, why: str | None) -> None:
    assert pattern_of(raw) == why


@pytest.mark.parametrize(
    "raw",
    [
        "covid 19 2020 2021",
        "2019 2020 2021 2022",
        "arXiv 2101.12345",
        "hep-th/9711200",
        "1990-2000 world cup results",
        "Comment on Nature 435, 207-211 (2005)",
        "4111 1111 1111 1112",  # fails Luhn
        "0000 0000 0000 0000",
        "isbn 978-0-306-40615-7",
        "gb82west12345698765433",  # fails mod 97
        "@realperson tweets",
        "10.1038/nature12373",
        "reset password",
        "what is an api key",
        "192.168.0.1",
        "12345678A",  # the letter does not fit
        "windows 10 21h2 19044",
        "3.14159265358979",
        "the meaning of 42",
        "c++ 2020",
        "1700000000 unix time",
    ],
)
def test_harmless_numbers_pass(raw: str) -> None:
    assert pattern_of(raw) is None


COMMON = ["alpha", "beta", "gamma", "delta", "epsilon"]


def planted(write: Write, secrets: dict[str, list[str]]) -> Path:
    """Write a log in which three users issue the same five queries, and each some secrets."""
    rows = []
    for i, user in enumerate(["ann", "bob", "cid"]):
        queries = [q for common in COMMON for q in (common, *secrets.get(user, []))]
        rows += [(user, f"s{user}", 1000 * i + j, q) for j, q in enumerate(queries)]
    return write(rows, header="user_id\tsession_id\ttime\tquery")


def everything(prepared: Prepared) -> str:
    return json.dumps([list(prepared.texts), list(prepared.shown), prepared.report.to_dict()])


def test_planted_secrets_are_nowhere(write: Write, tmp_path: Path) -> None:
    both = ["mail jane.doe@example.com", "pay 4111 1111 1111 1111", "beta www.x.org/?token=sesame"]
    path = planted(write, {"ann": ["ann has a rare disease", *both], "bob": both})
    work = tmp_path / "work"
    prepared = prepare(path, workdir=work)
    output = everything(prepared).lower()
    for secret in ("rare", "disease", "jane", "4111", "1111", "sesame", "sann"):
        assert secret not in output
    assert prepared.texts == COMMON
    assert prepared.k_anonymous
    assert prepared.user_counts.tolist() == [3] * 5
    assert list(work.iterdir()) == []
    gates = {gate["name"]: gate for gate in prepared.report.gates()}
    assert gates["email"]["arms"] == gates["card"]["arms"] == gates["min-users"]["arms"] == 1
    assert gates["min-users"]["share"] == pytest.approx(1 / 8)


def test_a_secret_in_a_link_takes_only_its_own_rows(write: Write) -> None:
    path = planted(
        write, {"ann": ["weather https://u:p@x.org/"], "bob": ["weather"], "cid": ["weather"]}
    )
    prepared = prepare(path)
    assert prepared.user_counts[prepared.texts.index("weather")] == 2
    assert prepared.shown[prepared.texts.index("weather")] == "weather"


def test_a_private_spelling_removes_every_spelling_of_its_arm(write: Write) -> None:
    path = planted(write, {"ann": ["jane@x.com"], "bob": ["janex com"], "cid": ["Janex com"]})
    assert prepare(path).texts == COMMON


def test_without_a_user_column_sessions_stand_for_users(write: Write) -> None:
    rows = [(s, i, q) for s in (1, 2) for i, q in enumerate([*COMMON, f"only {'xyz'[s]}"])]
    path = write(rows)
    loose, strict = prepare(path), prepare(path, LogOptions(min_users=2))
    assert not loose.k_anonymous
    assert not strict.k_anonymous
    assert len(loose.texts) == 7
    assert strict.texts == COMMON
    assert loose.user_counts.tolist() == loose.session_counts.tolist()


def test_one_user_is_one_user_however_often_they_ask(write: Write) -> None:
    rows = [("ann", f"s{s}", 100 * s + i, q) for s in range(5) for i, q in enumerate(COMMON)]
    path = write(rows, header="user\tsession\ttime\tquery")
    assert len(prepare(path).texts) == 0
    kept = prepare(path, LogOptions(min_users=1))
    assert kept.session_counts.tolist() == [5] * 5
    assert kept.user_counts.tolist() == [1] * 5


def test_evidence_for_anonymity_comes_from_the_whole_log(write: Write) -> None:
    rows = [("ann", "s1", i, q) for i, q in enumerate(COMMON)]
    rows += [("bob", f"s{q}", 99, q) for q in COMMON]  # sessions of one query
    prepared = prepare(write(rows, header="user\tsession\ttime\tquery"))
    assert prepared.texts == COMMON
    assert len(prepared.sessions.offsets) == 2


def test_the_blocklist_is_compared_after_cleaning(write: Write, tmp_path: Path) -> None:
    blocklist = tmp_path / "blocked.txt"
    blocklist.write_text("\ufeffBETA!\n\n  gamma \nnot there\n", encoding="utf-8")
    prepared = prepare(planted(write, {}), LogOptions(blocklist=blocklist))
    assert prepared.texts == ["alpha", "delta", "epsilon"]
    assert [session.tolist() for session in prepared.sessions.lists()] == [[0, 1, 2]] * 3
    with pytest.raises(InvalidInput, match="cannot read the blocklist"):
        prepare(planted(write, {}), LogOptions(blocklist=tmp_path / "missing"))


def test_what_a_removed_query_leaves_behind(write: Write) -> None:
    """Equal neighbours are merged; a session with one query left is dropped, but its arm stays."""
    ann = ["tea", "a@b.com", "tea", "cup"]
    bob = ["pot", "a@b.com", "c@d.com", "e@f.com"]
    path = write([(s, 10 * s + i, q) for s, qs in enumerate((ann, bob)) for i, q in enumerate(qs)])
    prepared = prepare(path)
    assert prepared.texts == ["tea", "cup", "pot"]
    assert [session.tolist() for session in prepared.sessions.lists()] == [[0, 1]]
    assert prepared.report.to_dict()["privacy"]["rows_merged"] == 1
    assert prepared.report.to_dict()["privacy"]["rows_in_sessions_too_short"] == 1


def test_a_single_query_stays_as_a_session_where_one_query_is_enough(write: Write) -> None:
    bob = ["pot", "a@b.com"]
    path = write([(s, s, q) for s, qs in enumerate((bob, ["tea"])) for q in qs])
    prepared = prepare(path, LogOptions(min_queries=1))
    assert [session.tolist() for session in prepared.sessions.lists()] == [[0], [1]]
    assert prepared.report.to_dict()["privacy"]["rows_in_sessions_too_short"] == 0
    assert prepare(path, LogOptions(min_queries=2)).sessions.size == 0


def test_patterns_can_be_switched_off_by_name(write: Write) -> None:
    path = write([(1, i, q) for i, q in enumerate(["a@b.com", "tea", "cup", "pot"])])
    assert "ab com" in prepare(path, LogOptions(skip=("email",))).texts
