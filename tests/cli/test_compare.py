"""`nextquery compare`, as people and scripts use it."""

import json
from pathlib import Path

import numpy as np

import nextquery as nq
from nextquery.build.ingest import ingest
from nextquery.cli.evaluate import saw_answers
from nextquery.logs import LogOptions
from nextquery.research import replay
from nextquery.research import report as reports
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


def test_columns_can_be_named_and_a_log_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    header, _, rows = log.read_text(encoding="utf-8").partition("\n")
    names = {"session_id": "visit", "user_id": "who", "time": "when", "query": "searched"}
    renamed = "\t".join(names.get(column, column) for column in header.split("\t"))
    log.write_text(f"{renamed}\n{rows}", encoding="utf-8")
    command = ["compare", str(log), "--out", str(tmp_path / "run"), "--encoder", "lsa"]
    command += ["--policy", "sr", "--processes", "1"]
    refused = run_here(*command)
    assert refused.returncode != 0
    assert "Columns found: " in refused.stderr
    assert not (tmp_path / "run").exists()
    columns = [f"--{kind.removesuffix('_id')}={name}" for kind, name in names.items()]
    told = run_here(*command, *columns)
    assert told.returncode == 0, told.stderr
    assert told.stdout.rstrip().rpartition("\n")[2].startswith("Use ")  # it ends with the sentence
    options = replay.results.read_run(tmp_path / "run")["compare"]["options"]
    assert options["sessions"] == options["tuning_sessions"] < 60  # a quarter of a short log


def test_an_encoder_that_saw_the_answers_is_noted(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    options = reports.CompareOptions(sessions=20, recommenders=("sr",))
    for hold_out, seen in ((0, True), (60, False)):
        folder = tmp_path / str(hold_out)
        ingest(log, folder, encoder="lsa", hold_out=hold_out)
        pool = nq.ArmPool.open(folder)
        past = replay.sessions_of(pool)
        assert np.isfinite(past.times).all()
        note = saw_answers(pool, past, options)
        assert ("the encoder was fitted on" in note) == seen
        assert ("Score fewer sessions, such as --sessions " in note) == seen  # 1,020 are too many


def test_sessions_of_one_query_do_not_count_as_hidden_ones(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    text = log.read_text(encoding="utf-8")
    single = [f"u{n % 60}\tx{n}\t2024-01-28 12:00:00\tdog food" for n in range(100)]
    log.write_text(text + "\n".join(single) + "\n", encoding="utf-8")
    ingest(log, tmp_path / "pool", LogOptions(min_queries=1), encoder="lsa", hold_out=20)
    pool = nq.ArmPool.open(tmp_path / "pool")
    options = reports.CompareOptions(sessions=30, recommenders=("sr",))
    assert "the encoder was fitted on" in saw_answers(pool, replay.sessions_of(pool), options)
