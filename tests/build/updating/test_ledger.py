"""What a ledger remembers: everything at once is the oracle, for every way to cut a log."""

import itertools
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import Damaged, InvalidInput
from nextquery.logs import LogOptions, Prepared, prepare
from nextquery.logs.ledger import Keys, Ledger, Strings, opened, sealed
from nextquery.logs.merge import Remember
from tests.build.updating.logs import OPTIONS, SECRET, Row, arms_of, random_rows, sessions_of, write
from tests.few_examples import few

KEYS = Keys(SECRET)


def prepared(
    folder: Path, parts: list[list[Row]], options: LogOptions = OPTIONS, *, personal: bool = False
) -> Prepared:
    """Prepare parts of a log one after another, each with the ledger of those before."""
    done: Prepared | None = None
    for number, rows in enumerate(parts):
        before = None if done is None else through_bytes(done)
        texts = () if done is None else done.texts
        done = prepare(
            write(folder / f"{number}.csv", rows),
            options,
            remember=Remember(KEYS, before, texts),
            person_hash=(lambda user: KEYS.whole("person", user.encode()).hex())
            if personal
            else None,
        )
    assert done is not None
    return done


def through_bytes(done: Prepared) -> Ledger:
    assert done.ledger is not None
    ledger = done.ledger.without_plain(done.texts)  # as a pool keeps it
    return Ledger.from_bytes(ledger.to_bytes(KEYS), KEYS, "the ledger")


def equal(one: Prepared, other: Prepared) -> None:
    assert arms_of(one) == arms_of(other)
    of_one = sessions_of(one.sessions, one.texts, one.people)
    assert of_one == sessions_of(other.sessions, other.texts, other.people)
    numbers = ("table2", "rules", "privacy", "pool")
    assert [one.report.to_dict()[n] for n in numbers] == [
        other.report.to_dict()[n] for n in numbers
    ]


@settings(max_examples=few(3), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(4, 116), min_size=1, max_size=2, unique=True),
    ids=st.booleans(),
)
def test_every_cut_gives_what_all_days_at_once_give(seed: int, cuts: list[int], ids: bool) -> None:
    rows = random_rows(seed, 120, ids=ids)
    at = [0, *sorted(cuts), len(rows)]
    parts = [rows[low:high] for low, high in itertools.pairwise(at)]
    with tempfile.TemporaryDirectory() as folder:
        whole = prepared(Path(folder), [rows], personal=True)
        equal(prepared(Path(folder), parts, personal=True), whole)


@settings(max_examples=few(2), deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.2, 0.8))
@pytest.mark.soak
def test_days_that_overlap_in_time_give_it_too(seed: int, share: float) -> None:
    rows = random_rows(seed, 80)
    late = np.random.default_rng(seed).random(len(rows)) < share
    late[0], late[1] = True, False
    parts = [
        [r for r, is_late in zip(rows, late, strict=True) if is_late is flag]
        for flag in (np.False_, np.True_)
    ]
    with tempfile.TemporaryDirectory() as folder:
        equal(prepared(Path(folder), parts), prepared(Path(folder), [rows]))


def test_a_log_without_times_goes_on_row_by_row(tmp_path: Path) -> None:
    rows = random_rows(3, 120, timed=False)
    equal(prepared(tmp_path, [rows[:70], rows[70:]]), prepared(tmp_path, [rows]))


def test_a_second_user_completes_what_the_user_rule_held_back(tmp_path: Path) -> None:
    first = [
        Row("ann", "1", "100", "red cat"),
        Row("ann", "1", "200", "Zyx Phobia"),
        Row("ann", "1", "300", "Zyx Phobia!"),
        Row("bob", "2", "400", "red cat"),
        Row("bob", "2", "500", "blue dog"),
    ]
    second = [Row("carla", "3", "900", "zyx phobia"), Row("carla", "3", "950", "red cat")]
    before = prepared(tmp_path, [first])
    assert before.texts == ["red cat"]
    after = prepared(tmp_path, [first, second])
    assert arms_of(after) == {
        "red cat": ("red cat", 3, 3, None),
        "zyx phobia": ("Zyx Phobia", 2, 2, None),  # the spelling was locked, with the text as key
    }
    assert [queries for queries, _, _ in sessions_of(after.sessions, after.texts)] == [
        ["red cat", "zyx phobia"],
        ["zyx phobia", "red cat"],
    ]


def test_no_query_of_one_person_can_be_read_not_even_with_the_secret(tmp_path: Path) -> None:
    rows = [
        Row("ann", "zyxsession", "100", "red cat"),
        Row("ann", "zyxsession", "200", "Zyx Phobia"),
        Row("ann", "zyxsession", "300", "zyxalice@example.org"),
        Row("bob", "2", "400", "red cat"),
        Row("bob", "2", "500", "blue dog"),
    ]
    done = prepared(tmp_path, [rows])
    assert done.ledger is not None
    for file in (done.ledger.to_bytes(KEYS), opened(done.ledger.to_bytes(KEYS), KEYS, "it")):
        assert b"zyx" not in file.lower()
        assert b"bob" not in file
    assert done.ledger.waiting == ["red cat"]


def test_what_enough_users_issued_waits_in_words_for_a_session(tmp_path: Path) -> None:
    """Two users issued it, in sessions that were too short: it is no arm, and not private."""
    first = [
        Row("ann", "1", "100", "green bird"),
        Row("bob", "2", "200", "green bird"),
        Row("ann", "3", "300", "red cat"),
        Row("ann", "3", "310", "red dog"),
        Row("bob", "4", "400", "red cat"),
        Row("bob", "4", "410", "red dog"),
    ]
    second = [Row("ann", "1", "500", "red cat")]
    assert "green bird" not in prepared(tmp_path, [first]).texts
    equal(prepared(tmp_path, [first, second]), prepared(tmp_path, [first + second]))
    assert "green bird" in prepared(tmp_path, [first, second]).texts


def test_a_foreign_session_stays_foreign_and_is_not_judged_by_what_is_hidden(
    tmp_path: Path,
) -> None:
    german = ["Grippeimpfung für Kinder", "Nebenwirkungen der Impfung", "Windkraft im Norden"]
    english = ["wind power in the north", "side effects of vaccines", "vaccines for children"]
    rows = [
        Row(user, f"{user} {language}", f"{100 + 10 * step}", query)
        for user in ("ann", "bob")
        for language, queries in (("de", german), ("en", english))
        for step, query in enumerate(queries)
    ]
    more = [
        Row(user, f"{user} {language}", f"{900 + 10 * step}", query)
        for user in ("ann", "bob")
        for language in ("de", "en")
        for step, query in enumerate(["wind power", "wind turbines"])
    ]
    options = LogOptions(min_queries=2)
    equal(prepared(tmp_path, [rows, more], options), prepared(tmp_path, [rows + more], options))
    assert "windkraft im norden" not in prepared(tmp_path, [rows, more], options).texts


def test_rows_that_are_there_already_are_refused(tmp_path: Path) -> None:
    rows = random_rows(1, 40, ids=False)
    with pytest.raises(InvalidInput, match=r"^10 of 20 rows are in the pool already, from 2023"):
        prepared(tmp_path, [rows[:30], rows[20:]])


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"user": ""}, {}, "this log has users, and the log of the pool has no users"),
        ({}, {"time": ""}, "this log has no times, and the log of the pool has times"),
    ],
)
def test_columns_that_only_one_part_has_are_refused(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], said: str
) -> None:
    rows = [Row("ann", "1", f"{at}", f"{word} cat") for at, word in enumerate(("red", "blue"), 1)]
    with pytest.raises(InvalidInput, match=said):
        prepared(
            tmp_path,
            [[r._replace(**first) for r in rows], [r._replace(**second) for r in rows]],
        )


def test_a_file_opens_only_with_its_secret_and_unchanged(tmp_path: Path) -> None:
    done = prepared(tmp_path, [random_rows(0, 30)])
    assert done.ledger is not None
    content = done.ledger.to_bytes(KEYS)
    assert content == done.ledger.to_bytes(KEYS)
    with pytest.raises(InvalidInput, match="sealed with another user_hash_secret"):
        Ledger.from_bytes(content, Keys("another"), "the ledger")
    for at in (0, 9, 30, 45, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1
        with pytest.raises((Damaged, InvalidInput)):
            Ledger.from_bytes(bytes(changed), KEYS, "the ledger")
    with pytest.raises(Damaged, match="is no ledger"):
        opened(b"", KEYS, "it")
    with pytest.raises(Damaged, match="cannot be read"):
        Ledger.from_bytes(sealed(b"PK no zip", KEYS), KEYS, "it")
    again = Ledger.from_bytes(content, KEYS, "the ledger")
    for field in fields(Ledger):
        one, other = getattr(done.ledger, field.name), getattr(again, field.name)
        if isinstance(one, Strings):
            assert list(one) == list(other)
        else:
            assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def test_keys_need_a_secret() -> None:
    with pytest.raises(InvalidInput, match="a ledger needs the service's user_hash_secret"):
        Keys("")
