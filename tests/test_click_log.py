"""The click log of a played past: its sessions as they were, and clicks on what was shown."""

from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.click_log import TOGETHER, batches, play
from nextquery.research.neural.cfan import click_sessions_of
from tests.research.replay.worlds import returning_world


def test_a_batch_has_no_session_twice_and_keeps_the_order_of_each() -> None:
    _, sessions = returning_world(60)
    session = np.repeat(np.arange(sessions.size), sessions.lengths)
    made = list(batches(sessions, session))
    assert sorted(place for batch in made for place in batch) == list(range(len(session)))
    for batch in made:
        assert len(batch) <= TOGETHER
        assert len({int(session[place]) for place in batch}) == len(batch)
    asked = [float(sessions.asked[place]) for batch in made for place in batch]
    assert asked == sorted(asked)


def test_the_export_has_the_sessions_and_what_was_clicked(tmp_path: Path) -> None:
    pool, sessions = returning_world(40)
    out = tmp_path / "clicks.parquet"
    steps, clicks = play(pool, sessions, out)
    assert steps == int((sessions.lengths - 1).sum())
    rows = pq.read_table(out).to_pylist()
    assert 0 < clicks == sum(row["accepted"] for row in rows)
    visits, unknown = click_sessions_of(out, pool.find, None)
    assert unknown == 0
    rows_of = [sessions.of_number(one).tolist() for one in range(sessions.size)]
    asked = sorted([arm for arm, _ in groupby(row)] for row in rows_of)  # a repeat is one query
    assert sorted(visit.arms for visit in visits) == asked
    shown: dict[str, list[str]] = {}
    for row in rows:
        if row["ordinal"] is not None:
            shown.setdefault(row["decision_id"], []).append(row["text"])
    assert all(len(set(texts)) == len(texts) for texts in shown.values())
