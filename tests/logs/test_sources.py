"""UBI records and ir_datasets records."""

import datetime
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, prepare, stats_of

ONE = LogOptions(min_users=1)


def ubi_query(n: int, text: str, **more: object) -> dict[str, object]:
    at = f"2024-05-01T10:{n:02}:00.000Z"
    return {"application": "shop", "query_id": f"id{n}", "client_id": "c1", "user_query": text,
            "timestamp": at, "query_response_hit_ids": ["x", "y"], **more}  # fmt: skip


def ubi_event(n: int, **more: object) -> dict[str, object]:
    at = f"2024-05-01T10:{n:02}:30.000Z"
    return {"action_name": "click", "query_id": f"id{n}", "client_id": "c1", "timestamp": at,
            "event_attributes": {"object": {"object_id": "x"}}, **more}  # fmt: skip


def write_lines(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def test_ubi_queries_are_cut_by_client_and_gap(tmp_path: Path) -> None:
    minutes = [0, 5, 10, 15, 50, 51, 52, 53]
    records = [ubi_query(m, f"q{'abcdefgh'[i]}") for i, m in enumerate(minutes)]
    prepared = prepare(write_lines(tmp_path / "ubi.jsonl", records), ONE)
    assert [len(session) for session in prepared.sessions.lists()] == [4, 4]


def test_ubi_sessions_come_from_queries_or_from_events(tmp_path: Path) -> None:
    records: list[dict[str, object]] = []
    for n, (text, session) in enumerate(zip("abcdefgh", "1212" * 2, strict=True)):
        records.append(ubi_query(n, text, **({"session_id": session} if n < 4 else {})))
        records += [ubi_event(n, session_id=session)] * 2
    prepared = prepare(write_lines(tmp_path / "ubi.jsonl", records), ONE)
    texts = [[prepared.texts[arm] for arm in session] for session in prepared.sessions.lists()]
    assert texts == [["a", "c", "e", "g"], ["b", "d", "f", "h"]]
    assert prepared.report.original == 8
    assert prepared.report.malformed.rows == 0


def test_ubi_in_two_files_and_as_exported_documents(tmp_path: Path) -> None:
    queries: list[dict[str, object]] = [
        {"_index": "ubi_queries", "_source": ubi_query(n, q)} for n, q in enumerate("abcd")
    ]
    write_lines(tmp_path / "queries.jsonl", queries)
    write_lines(tmp_path / "events.jsonl", [ubi_event(n, session_id="s") for n in range(4)])
    assert prepare(str(tmp_path / "*.jsonl"), ONE).texts == ["a", "b", "c", "d"]
    with pytest.raises(InvalidInput, match="events alone have no query text"):
        stats_of(tmp_path / "events.jsonl")


class Record(NamedTuple):
    user_id: str
    query_id: str
    query: str
    query_orig: str
    time: datetime.datetime
    items: tuple[str, ...] = ()


def records() -> list[Record]:
    start = datetime.datetime(2006, 3, 1, 7)
    return [
        Record(user, f"{user}{i}", q, q.upper() + "!", start + datetime.timedelta(minutes=i))
        for user in ("1", "2")
        for i, q in enumerate(["a", "b", "c", "d"])
    ]


def test_records_of_ir_datasets() -> None:
    prepared = prepare(iter(records()), LogOptions(format="ir_datasets"))
    assert prepared.texts == ["a", "b", "c", "d"]
    assert prepared.shown == ["A!", "B!", "C!", "D!"]
    assert prepared.user_counts.tolist() == [2] * 4
    assert prepared.k_anonymous
    assert prepared.sessions.times[0] == 1141196400.0


def test_invalid_records_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="no records"):
        prepare([], LogOptions(format="ir_datasets"))
    with pytest.raises(InvalidInput, match="user_id, query and time"):
        prepare([(1, 2)], LogOptions(format="ir_datasets"))
    with pytest.raises(InvalidInput, match="iterable of records"):
        prepare("log.csv", LogOptions(format="ir_datasets"))


def test_a_data_set_is_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dataset:
        def qlogs_iter(self) -> object:
            return iter(records())

    class Module:
        @staticmethod
        def load(name: str) -> object:
            assert name == "aol-ia"
            return Dataset()

    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", Module)
    assert prepare("irds:aol-ia").texts == ["a", "b", "c", "d"]
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
    with pytest.raises(InvalidInput, match=r"nextquery\[ir-datasets\]"):
        prepare("irds:aol-ia")
