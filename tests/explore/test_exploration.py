"""A session: what it learns, that a seed fixes it, and that a killed one resumes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.errors import InvalidInput, NotAFolder
from nextquery.explore import Exploration, Table, sampling
from tests.explore.worlds import cheap_in_gent, homes, labelled


def test_it_finds_what_a_person_wants(tmp_path: Path) -> None:
    table = homes(tmp_path)
    exploration = labelled(Exploration(table, seed=3), cheap_in_gent, 250)
    wanted = {i for i, home in enumerate(table.shown(range(len(table)))) if cheap_in_gent(home)}
    found = set(exploration.selected().nonzero()[0].tolist())
    both = len(found & wanted)
    assert 2 * both / (len(found) + len(wanted)) > 0.9
    assert {sample.phase for sample in exploration.samples()} <= {
        "discovery",
        "misclassified",
        "boundary",
    }


def test_the_clause_selects_what_the_tree_calls_relevant(tmp_path: Path) -> None:
    exploration = labelled(Exploration(homes(tmp_path), seed=1), cheap_in_gent, 120)
    selected = exploration.selected().nonzero()[0]
    assert exploration.table.selected(exploration.where()).tolist() == selected.tolist()
    assert exploration.count() == len(selected)


def test_before_a_relevant_row_nothing_is_selected(tmp_path: Path) -> None:
    exploration = Exploration(homes(tmp_path, 200))
    assert exploration.where() == "FALSE"
    assert exploration.count() == 0
    exploration.label([])
    assert (exploration.labels, exploration.relevant, exploration.count()) == (10, 0, 0)


def test_a_seed_gives_the_same_rows_and_another_seed_others(tmp_path: Path) -> None:
    table = homes(tmp_path, 500)
    first, again, other = (
        labelled(Exploration(table, seed=seed), cheap_in_gent, 60) for seed in (5, 5, 6)
    )
    assert first.samples() == again.samples()
    assert first.where() == again.where()
    assert first.samples() != other.samples()


def test_undo_goes_back_to_the_same_rows(tmp_path: Path) -> None:
    exploration = labelled(Exploration(homes(tmp_path, 500)), cheap_in_gent, 40)
    shown, clause = exploration.samples(), exploration.where()
    exploration.label([sample.row for sample in shown])
    assert exploration.where() != clause
    assert exploration.undo()
    assert (exploration.samples(), exploration.where()) == (shown, clause)
    assert not Exploration(exploration.table).undo()


def test_save_and_resume(tmp_path: Path) -> None:
    table, file = homes(tmp_path, 500), tmp_path / "state.json"
    exploration = labelled(Exploration(table, seed=2, samples=7), cheap_in_gent, 50)
    exploration.save(file)
    resumed = Exploration.resume(file, tmp_path / "homes.csv")
    assert resumed.samples() == exploration.samples()
    assert (resumed.where(), resumed.labels) == (exploration.where(), exploration.labels)


def test_a_killed_process_resumes_where_it_stopped(tmp_path: Path) -> None:
    homes(tmp_path, 300)
    code = f"""
import os, signal
from nextquery.explore import Exploration
exploration = Exploration({str(tmp_path / "homes.csv")!r}, seed=4)
while True:
    exploration.label([exploration.samples()[0].row])
    exploration.save({str(tmp_path / "state.json")!r})
    if exploration.labels == 50:
        exploration.label([])
        os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False)
    assert ended.returncode == -signal.SIGKILL
    resumed = Exploration.resume(tmp_path / "state.json", tmp_path / "homes.csv")
    assert (resumed.labels, resumed.relevant) == (50, 5)


def test_a_state_of_another_table_is_refused(tmp_path: Path) -> None:
    exploration = labelled(Exploration(homes(tmp_path, 100)), cheap_in_gent, 20)
    file = tmp_path / "state.json"
    exploration.save(file)
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidInput, match="rows differs"):
        Exploration.resume(file, homes(tmp_path / "other", 101))
    with pytest.raises(InvalidInput, match="columns differs"):
        Exploration.resume(file, Table.open(tmp_path / "homes.csv", columns=["price"]))
    state = json.loads(file.read_text())
    state["rounds"] = [[[100, 1]]]
    file.write_text(json.dumps(state))
    with pytest.raises(InvalidInput, match="beyond the 100"):
        Exploration.resume(file, exploration.table)
    file.write_text('{"kind": "another"}')
    with pytest.raises(NotAFolder, match="not a nextquery exploration"):
        Exploration.resume(file, exploration.table)
    file.write_text('{"kind": "nextquery exploration", "version": 9}')
    with pytest.raises(NotAFolder, match="version 9"):
        Exploration.resume(file, exploration.table)


def test_labels_of_rows_that_were_not_shown(tmp_path: Path) -> None:
    exploration = Exploration(homes(tmp_path, 100))
    hidden = next(i for i in range(100) if i not in {s.row for s in exploration.samples()})
    with pytest.raises(InvalidInput, match=f"row {hidden} was not shown"):
        exploration.label([hidden])
    exploration.add({hidden: True})
    assert exploration.selected()[hidden]
    with pytest.raises(InvalidInput, match="at most 99; received 100"):
        exploration.add({100: True})


def test_every_row_can_be_labelled(tmp_path: Path) -> None:
    exploration = labelled(Exploration(homes(tmp_path, 45)), cheap_in_gent, 1000)
    assert exploration.labels == 45
    assert exploration.samples() == []
    wanted = [cheap_in_gent(home) for home in exploration.table.shown(range(45))]
    assert exploration.selected().tolist() == wanted


def test_labels_of_rows_of_a_long_table_that_were_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MOST_ROWS", 100)
    table = homes(tmp_path)
    exploration = Exploration(table, seed=1)
    labels = {row: cheap_in_gent(table.shown([row])[0]) for row in range(0, 3000, 7)}
    exploration.add(labels)
    assert exploration.samples()
    selected = exploration.selected()
    assert {row: bool(selected[row]) for row in labels} == labels
    assert exploration.count() > sum(labels.values()) > 10
