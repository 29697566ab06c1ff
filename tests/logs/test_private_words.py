"""Addresses, numbers, dates and passwords that a key word gives away; both in logs and live."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from nextquery.logs import PATTERNS, LogOptions, QueryCleaner, prepare
from nextquery.logs.private_text import (
    ADDRESS_OR_WORD,
    ADDRESSES,
    NUMBERS,
    PLAIN_WORDS,
    RAW,
    WORDS,
    seen_in,
    verdict,
)
from tests.logs.conftest import Write, pattern_of

CLEAN = QueryCleaner()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("who is 85.214.132.117", "ipv4"),
        ("ping 203.0.113.9:8080", "ipv4"),
        ("2001:db8:85a3:8d3:1319:8a2e:370:7348", "ipv6"),
        ("block 2001:db8::ff00:42:8329 firewall", "ipv6"),
        ("00:1a:2b:3c:4d:5e", "mac-address"),
        ("passport number C01X00T47", "personal-number"),
        ("passport 123456789", "personal-number"),
        ("reisepass nr. C3JHT5KL9 verloren", "personal-number"),
        ("driver's license D1234567", "personal-number"),
        ("medical record number 00412345", "personal-number"),
        ("mrn: 12345678", "personal-number"),
        ("patient id 4471234 results", "personal-number"),
        ("insurance policy number HX-1234567", "personal-number"),
        ("versichertennummer A123456789", "personal-number"),
        ("jane roe date of birth 12/03/1985", "birth-date"),
        ("dob 1985-03-12 john", "birth-date"),
        ("dob: 12th of march 1985", "birth-date"),
        ("geburtsdatum 12.03.1985", "birth-date"),
        ("fecha de nacimiento 12 de marzo de 1985", "birth-date"),
        ("date de naissance 3 mars 1971", "birth-date"),
        ("data di nascita 3 maggio 1971", "birth-date"),
        ("password is hunter2", "spoken-credential"),
        ("the password for jane is hunter2", "spoken-credential"),
        ("hunter2 is my password", "spoken-credential"),
        ("mein passwort lautet geheim", "spoken-credential"),
        ("mi contraseña es gato123", "spoken-credential"),
        ("mon mot de passe est chien99", "spoken-credential"),
        ("pin is 4711", "spoken-credential"),
        ("my pin is 1234", "credential"),
        ("login jane pass hunter2", "spoken-credential"),
        ("wifi key 12345678abcd", "wifi-key"),
        ("wlan schlüssel 9988776655443322", "wifi-key"),
        ("password%20is%20hunter2", "spoken-credential"),
        ("pass\u00adword is hunter2", "spoken-credential"),  # a soft hyphen
    ],
)
def test_kept_out_of_logs_and_live_arms(raw: str, why: str) -> None:
    assert pattern_of(raw) == why
    assert CLEAN(raw).private == why


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("192.168.0.1", "ipv4-any"),
        ("router login 10.0.0.138", "ipv4-any"),
        ("version 1.2.3.4 release notes", "ipv4-any"),
        ("version 12.4.1.20 release notes", "ipv4-any"),
        ("case number 1234567", "file-number"),
        ("aktenzeichen 4711/2023", "file-number"),
        ("order 1122334455 status", "file-number"),
        ("my daughter 12 march 2015 vaccine", "personal-date"),
        ("jan mayer geboren 12.3.1985", "personal-date"),
        ("born july 4, 1976", "personal-date"),
        ("2015-03-12 biopsy of my son", "personal-date"),
        ("the password is swordfish", "maybe-credential"),
        ("swordfish is the password", "maybe-credential"),
        ("my password swordfish", "maybe-credential"),
        ("pin 4711", "maybe-credential"),
        ("login jane pass tiger", "maybe-credential"),
        ("wifi password correcthorse", "maybe-credential"),
    ],
)
def test_too_broad_for_logs_but_kept_out_of_live_arms(raw: str, why: str) -> None:
    assert pattern_of(raw) is None
    assert CLEAN(raw).private == why


@pytest.mark.parametrize(
    "raw",
    [
        "999.300.1.1",
        "std::vector insert",
        "12:30:45 timer",
        "passport renewal",
        "us passport renewal 2024 2025",
        "passport photo 35x45mm",
        "health insurance 2023 2024 comparison",
        "patient outcomes 2019 2020",
        "nhs 111 online",
        "date of birth of einstein",
        "who was born on march 14 1879",
        "born to run",
        "d day 6 june 1944",
        "news 12 march 2015",
        "covid 19",
        "password manager",
        "password managers compared 2024",
        "password is incorrect",
        "username and password generator",
        "login page password reset",
        "wifi password hack 2024",
        "pin number security",
        "arduino pin 13 led",
        "mysql user password hash sha256",
        "case study method",
        "order of operations 2020",
        "account based marketing 2021",
    ],
)
def test_harmless_queries_pass_everywhere(raw: str) -> None:
    assert pattern_of(raw) is None
    assert CLEAN(raw).private is None


def test_a_live_only_pattern_changes_no_log_and_can_be_switched_off(write: Write) -> None:
    rows = [(1, i, q) for i, q in enumerate(["192.168.0.1 login", "tea", "cup", "pot"])]
    path: Path = write(rows)
    prepared = prepare(path)
    assert "192 168 0 1 login" in prepared.texts
    gates = {gate["name"] for gate in prepared.report.gates()}
    assert "ipv4" in gates
    assert not gates & {pattern.name for pattern in PATTERNS if pattern.live_only}
    assert LogOptions(skip=("ipv4-any",)).skip == ("ipv4-any",)
    assert QueryCleaner(skip=("ipv4-any",))("192.168.0.1 login").private is None


def test_the_cleaner_leaves_out_only_patterns_that_cannot_match() -> None:
    """Queries made of the words of all patterns: whatever matches one is not taken for harmless."""
    regexes = " ".join(regex for pattern in PATTERNS for regex in pattern.regexes).lower()
    said = sorted(set(re.findall("[a-z]+", regexes)))
    often = "bearer sk at dot com is my wlan key wifi pin pwd begin private 1 84 1984 12345 @ = :"
    parts = [*said, *9 * often.split(), "abcdefgh", "a" * 20, "ß"]
    rng = np.random.default_rng(0)
    typed = [
        "".join(np.stack([rng.choice(parts, n), rng.choice([" ", " ", " ", "-"], n)], 1).flat)[:-1]
        for n in rng.integers(1, 7, 10_000)
    ]
    with duckdb.connect() as database:
        database.register("typed", {"raw": np.array(typed, dtype=object)})
        found = database.execute(
            f"SELECT raw, {verdict('h', (), NUMBERS)}, {verdict('h', (), (*ADDRESSES, *WORDS))} "
            f"FROM (SELECT raw, {seen_in(RAW)} AS h FROM (SELECT raw, raw AS shown FROM typed))"
        ).fetchall()
    assert len(found) == 10_000
    others = [query for query, _, other in found if other is not None]
    numbers = [query for query, number, _ in found if number is not None]
    assert min(len(others), len(numbers)) > 10
    assert all(ADDRESS_OR_WORD.search(query) for query in others)
    assert not [query for query in (*others, *numbers) if PLAIN_WORDS.fullmatch(query)]
    assert sum(PLAIN_WORDS.fullmatch(query) is not None for query in typed) > 1000


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("bob at example dot com", "email"),
        ("bearer abcdefghijklmnopqrstuvwxyz", "credential"),
        ("sk-abcdefghijklmnopqrstuvwxyz", "credential"),
        ("xoxb-abcdefghij", "credential"),
        ("graph neural networks", None),
        ("dob 1 2 84", "birth-date"),
        ("ab-cd-12-ef-aa-bb", "mac-address"),
        ("best films of 1984", None),
        ("state-of-the-art", None),
    ],
)
def test_a_query_of_plain_words(query: str, why: str | None) -> None:
    assert CLEAN(query).private == why
    assert pattern_of(query) == why


def test_a_key_of_a_network_is_private_when_it_is_typed() -> None:
    assert CLEAN("wlan guest key abcdefgh").private == "maybe-credential"
