"""`nextquery compare`, as people and scripts use it."""

import json
from pathlib import Path

import numpy as np

import nextquery as nq
from nextquery import replay
from nextquery.cli.compare import saw_answers
from nextquery.ingest import ingest
from tests.command_line import run_here
from tests.logs_for_tests import pets


def test_a_log_in_a_table_and_in_json(tmp_path: Path) -> None:
    log, run = pets(tmp_path / "log.tsv", users=60), str(tmp_path / "run")
    command = ["compare", str(log), "--out", run, "--sessions", "20", "--encoder", "lsa"]
    command += ["--policy", "sr", "--policy", "stan", "--processes", "1"]
    told = run_here(*command)
    assert told.returncode == 0, told.stderr
    assert "Use " in told.stdout
    assert "measure costs: done" in told.stderr
    again = run_here(*command, "--json")
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["use"] in " ".join(told.stdout.split("\n"))
    assert len(found["rows"]) == 3
    assert Path(found["page"]).read_text(encoding="utf-8").startswith("# Which recommender to use")
    for wrong, message in (
        (("--policy", "nobody"), "policy must be one of"),
        (("--since", "soon"), "since must be a date"),
        (("--model", str(tmp_path)), "has no trained model"),
    ):
        refused = run_here("compare", str(log), "--out", str(tmp_path / "none"), *wrong)
        assert refused.returncode != 0
        assert message in refused.stderr
        assert not (tmp_path / "none").exists()  # before any work


def test_an_encoder_that_saw_the_answers_is_noted(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    options = replay.CompareOptions(sessions=20, recommenders=("sr",))
    for hold_out, seen in ((0, True), (60, False)):
        folder = tmp_path / str(hold_out)
        ingest(log, folder, encoder="lsa", hold_out=hold_out)
        pool = nq.ArmPool.open(folder)
        past = replay.sessions_of(pool)
        assert np.isfinite(past.times).all()
        assert ("the encoder was fitted on" in saw_answers(pool, past, options)) == seen
