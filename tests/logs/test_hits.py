"""How many results a query had: read from columns and UBI, the newest count holds."""

import json
from pathlib import Path

import pytest

import nextquery as nq
from nextquery.build.ingest import ingest
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions
from nextquery.logs.prepare import prepare

ONE = LogOptions(min_queries=1)
LOG = """session,query,hits,time
1,Red shoes,12,2024-01-01
1,red shoos,0,2024-01-02
2,red shoos,7,2023-12-31
2,Blue shoes,,2024-01-02
3,blue shoes!,many,2024-01-03
3,green shoes,0,2024-01-01
4,green shoes,3,2024-01-02
"""


def counts(log: Path, options: LogOptions = ONE) -> dict[str, int]:
    done = prepare(log, options)
    return dict(zip(done.texts, done.hits.tolist(), strict=True)) if len(done.hits) else {}


def test_the_newest_count_that_is_known_holds(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    wanted = {"red shoes": 12, "red shoos": 0, "blue shoes": -1, "green shoes": 3}
    assert counts(log) == wanted
    log.write_text(LOG.replace("hits", "found"))
    assert counts(log) == {}
    assert counts(log, LogOptions(min_queries=1, hits="found")) == wanted
    with pytest.raises(InvalidInput, match="no column 'answers' for the hits"):
        prepare(log, LogOptions(min_queries=1, hits="answers"))


def test_without_times_the_last_row_is_the_newest(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("session,query,nb_hits\n1,tea,4\n1,cup,1\n2,tea,0\n2,pot,2\n")
    assert counts(log) == {"tea": 0, "cup": 1, "pot": 2}


def test_ubi_lists_the_results(tmp_path: Path) -> None:
    found: dict[str, list[str] | None] = {"tea": ["a", "b"], "tee": [], "cup": None}
    lines = []
    for number, (text, ids) in enumerate(found.items()):
        record = {"query_id": f"q{number}", "client_id": "c", "user_query": text}
        record["timestamp"] = f"2024-01-01T10:0{number}:00Z"
        lines.append(json.dumps({**record, "query_response_hit_ids": ids}))
    log = tmp_path / "ubi.jsonl"
    log.write_text("\n".join(lines))
    one = LogOptions(min_queries=1, min_users=1)  # a client of UBI is a user
    assert counts(log, one) == {"tea": 2, "tee": 0, "cup": -1}


def test_a_pool_keeps_the_counts_and_their_absence(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    pool = ingest(log, tmp_path / "pool", ONE, encoder="lsa").pool
    assert pool.origin is not None
    hits = {pool.texts[arm]: hits for arm, hits in enumerate(pool.origin.hits.tolist())}
    assert hits == {"red shoes": 12, "red shoos": 0, "blue shoes": -1, "green shoes": 3}
    log.write_text(LOG.replace("hits", "found"))
    without = ingest(log, tmp_path / "other", ONE, encoder="lsa").pool
    assert without.origin is not None
    assert not len(without.origin.hits)
    assert not (tmp_path / "other" / "log_hits.npy").exists()
    session = nq.Recommender(pool, nq.MaxUtility(k=4), nq.MostSimilar()).start("blue shoes")
    assert {choice.text for choice in session.recommend(4)} == {"Red shoes", "green shoes"}
