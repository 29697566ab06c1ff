"""Training as a user runs it: from a pool or a log, resumed, compared in the stream."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery import folders
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.logs import LogOptions
from nextquery.research.neural import METHODS, train
from nextquery.research.neural.registry import Running, method_named, parameters_of
from nextquery.research.neural.serve import Model
from tests.command_line import run_here
from tests.encode.train.world import log_file
from tests.research.neural.conftest import UNTIL

Trained = dict[str, tuple[Path, dict[str, Any]]]
TINY = "gru4rec@hidden=8,epochs=1,batch=16,negatives=16,dropout=0.3,momentum=0.2"


class Killed(Exception):
    """Raised in the middle of a training."""


def test_stopped_and_started_again_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """The states of GRU4Rec's lanes, dropout and draws go on where they were."""
    running = Running(checks=4, device="cpu", checkpoint_seconds=0)
    told: list[int] = []

    def stop(stage: str, check: Any, steps: int) -> None:
        told.append(check.step)
        if len(told) == 3:
            raise Killed

    train(folder, tmp_path / "straight", TINY, running)
    with pytest.raises(Killed):
        train(folder, tmp_path / "again", TINY, running, on_check=stop)
    assert not (tmp_path / "again").exists()
    notes: list[str] = []
    train(
        folder,
        tmp_path / "again",
        TINY,
        running,
        on_check=lambda stage, check, steps: told.append(check.step),
        note=notes.append,
    )
    assert told.count(0) == 1  # it did not start from the beginning
    assert notes == []
    parts = [Model.open(tmp_path / each).parts() for each in ("straight", "again")]
    assert json.dumps(_bytes(parts[0])) == json.dumps(_bytes(parts[1]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "straight"]


def _bytes(parts: Any) -> dict[str, Any]:
    """Return the parts as JSON."""
    found = {}
    for name, part in parts.items():
        arrays = part if isinstance(part, dict) else {"": np.frombuffer(part, np.uint8)}
        found[name] = {key: np.asarray(array).tolist() for key, array in arrays.items()}
    return found


def test_from_a_log_without_a_pool(tmp_path: Path) -> None:
    """The pool is made for the time of the training, and the same ingest serves the model."""
    log = log_file(tmp_path / "log.tsv", 60)
    cleaning = LogOptions.of(str(log), skip=("language",))
    running = Running(device="cpu")
    method = "gru4rec@hidden=8,epochs=1"
    report = train(
        str(log),
        tmp_path / "model",
        method,
        running,
        cleaning,
        encoder="lsa",
        hold_out=10,
    )
    assert report["data"]["left_out"] == 10
    assert report["data"]["split"] == "newest"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.tsv", "model"]
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "# A model of the rival gru4rec" in card
    assert "10 were left out" in card
    assert json.loads((tmp_path / "model" / "training.json").read_text()) == report


def test_the_folder_has_no_pickle_and_serving_no_torch(trained: Trained) -> None:
    model = trained["sasrec"][0]
    assert not any(
        path.suffix in (".pt", ".bin", ".pkl") and b"PK" in path.read_bytes()[:2]
        for path in model.iterdir()
    )
    folders.read(model, kind="nextquery rival model", version=1).verify()
    code = "import sys, nextquery.research.neural.serve; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_stream_plays_it_and_refuses_one_that_has_seen_the_window(
    trained: Trained, folder: Path, tmp_path: Path
) -> None:
    """Ten days after the model's training: every next query is certain."""
    name = f"gru4rec@model={trained['gru4rec'][0]}"
    stream = ["--protocol", "stream", "--warm", "10", "-k", "5", "--policy", name]
    done = run_here(
        "replay", str(folder), *stream, "--since", "1970-05-21", "--out", str(tmp_path / "run")
    )
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "run" / "stream.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["m"] == "1"]
    assert {row["policy"] for row in rows} == {name}
    assert float(rows[-1]["hit_at_m"]) > 0.8  # a ring returns now and then, and returns are hidden
    early = run_here(
        "replay", str(folder), *stream, "--since", "1970-05-01", "--out", str(tmp_path / "early")
    )
    assert early.returncode == 3
    assert "has seen what it would be tested on" in early.stderr
    assert "--until 1970-05-01" in early.stderr.replace("\n", " ")


def test_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    done = run_here(
        *("train", str(folder), "--out", str(out), "--method", "gru4rec@hidden=8,epochs=1"),
        *("--device", "cpu", "--until", "1970-05-21", "--checks", "2", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert "1 − MRR@20" in done.stderr
    report = json.loads(done.stdout)
    assert report["running"]["checks"] == 2
    assert report["knows_until"] < UNTIL
    assert report["options"]["hidden"] == 8


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["--method", "gru4rec", "--hidden", "64"],
            3,
            "gru4rec has no --hidden. The parameters of",
        ),
        (["--method", "gru4rec@width=3"], 3, "there is no parameter 'width'; a variant may set"),
        (["--method", "sasrec@hidden=7,heads=2"], 3, "hidden must be a multiple of heads"),
        (["--method", "gru4rec@tied=3"], 3, "tied must be true or false; received 3"),
        (["--method", "gru4rec", "--until", "soon"], 3, "until must be a date like 2018-01-01"),
        (["--method", "gru4rec", "--device", "cuda"], 3, "torch sees no GPU"),
        (["--method", "gru4rec", "--language", "en"], 3, "is a pool: it was cleaned"),
        (["--method", "gru4rec", "--encoder", "lsa"], 3, "is a pool: it was cleaned"),
        (["--method", "bert", "--until", "2020-01-01"], 3, "the method bert has no --until"),
        (["--method", "bert", "--clicks", "x"], 3, "the method bert has no --clicks. It belongs"),
        (["--method", "cfan"], 3, "cfan learns from recommendations that were accepted. Pass an"),
        (["--method", "rin", "--clicks", "x"], 3, "so --clicks has no effect. Leave it out"),
        (["--method", "cfan", "--clicks", "x"], 3, "there is no file x. Write it with nextquery"),
        (["--method", "acg@copy=3"], 3, "copy must be true or false; received 3"),
        (["--method", "rin@inference=-1"], 3, "inference must be a number"),
        (["--method", "caser"], 3, "bert, contrastive"),
    ],
)
def test_mistakes_give_clear_errors(
    folder: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    done = run_here("train", str(folder), "--out", str(tmp_path / "model"), *arguments)
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_at_the_target_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(NotAFolder, match="contains other files"):
        train(folder, tmp_path, "sasrec")
    with pytest.raises(InvalidInput, match="method must be one of gru4rec, sasrec"):
        train(folder, tmp_path / "model", "gru")


def test_every_parameter_has_a_name_and_a_range() -> None:
    """Each can be set by its name, and a value of another type is refused."""
    for name in METHODS:
        for parameter, default in parameters_of(name).items():
            value = str(default).lower()
            assert method_named(f"{name}@{parameter}={value}")[1] == METHODS[name].options()
            with pytest.raises(InvalidInput, match=parameter):
                method_named(f"{name}@{parameter}=wrong")
