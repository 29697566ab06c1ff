"""The command `nextquery train`: kills, serving without torch, and error messages."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from nextquery import folders
from nextquery.encode import Encoder
from nextquery.encode.train.loop import Checkpoints, Progress, weights_of
from tests.command_line import run_here
from tests.encode.train.world import SAME, log_file

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def train(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nextquery", "train", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=ONE_THREAD, **options)


def result(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate()
    return process.returncode, output, errors


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log_file(tmp_path_factory.mktemp("log") / "log.tsv")


class Trained(NamedTuple):
    """A training without interruption, into the current folder."""

    folder: Path
    output: str
    errors: str
    beside: list[str]


@pytest.fixture(scope="module")
def trained(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """An encoder trained beside the work of a training with other options."""
    parent = tmp_path_factory.mktemp("trained")
    module = torch.nn.Linear(2, 2)
    other = Checkpoints(parent / ".here.work", "masked-lm", made_from="other", every=0)
    optimizer = torch.optim.AdamW(module.parameters())
    other.save(Progress(step=7), module, optimizer, weights_of(module))
    folder = parent / "here"
    folder.mkdir()
    with contextlib.chdir(folder):
        brief = ("--method", "contrastive", *SAME, "--epochs", "1", "--steps", "30")
        done = run_here("train", str(log), "--out", ".", *brief, "--json")
    assert done.returncode == 0, done.stderr
    return Trained(folder, done.stdout, done.stderr, os.listdir(parent))


@pytest.fixture(scope="module")
def encoder(trained: Trained) -> Path:
    return trained.folder


def test_training_into_the_current_folder_beside_the_work_of_other_options(
    trained: Trained,
) -> None:
    assert "masked-lm  step 16 of 16  loss" in trained.errors
    assert "note: the checkpoint" in trained.errors
    assert "at step 7, was made from other data, options or versions" in trained.errors
    assert json.loads(trained.output)["out"] == "."
    Encoder.load(trained.folder)
    assert trained.beside == ["here"]


@pytest.mark.soak
def test_killed_and_started_again_gives_the_same_encoder(log: Path, tmp_path: Path) -> None:
    """After a SIGKILL in each of the two stages, the bytes are those of an uninterrupted run."""
    encoder = tmp_path / "straight"
    done = run_here("train", str(log), "--out", str(encoder), "--method", "contrastive", *SAME)
    assert done.returncode == 0, done.stderr
    command = [str(log), "--out", str(tmp_path / "again"), "--method", "contrastive", *SAME]
    command += ["--checkpoint-seconds", "0.01"]
    for stage, step in (("masked-lm", "27"), ("contrastive", "50")):
        with train(*command) as process:
            assert process.stderr is not None
            seen = []
            for line in process.stderr:
                seen.append(line)
                if line.startswith(f"{stage}  step {step} "):
                    process.send_signal(signal.SIGKILL)
                    break
            assert process.wait() == -signal.SIGKILL, "".join(seen)
        assert not (tmp_path / "again").exists()
        if stage == "contrastive":  # the stage of the first kill was resumed
            assert not any(line.startswith("masked-lm  step 0 ") for line in seen)
    code, _, errors = result(train(*command))
    assert code == 0, errors
    assert "contrastive  step 0 " not in errors
    resumed, straight = (Encoder.load(folder) for folder in (tmp_path / "again", encoder))
    assert resumed.parts() == straight.parts()
    first, second = (
        np.array(table.parts()["encoder_table.npy"]) for table in _tables(tmp_path, encoder)
    )
    assert first.tobytes() == second.tobytes()
    curves = [
        [{**check, "seconds": 0} for stage in _report(folder)["stages"] for check in stage["curve"]]
        for folder in (tmp_path / "again", encoder)
    ]
    assert curves[0] == curves[1]
    assert not (tmp_path / ".again.work").exists()


def _tables(tmp_path: Path, encoder: Path) -> list[Encoder]:
    return [Encoder.load(folder / "static") for folder in (tmp_path / "again", encoder)]


def _report(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return report


def test_the_folder_explains_itself(encoder: Path) -> None:
    report = _report(encoder)
    assert report["data"]["split"] == "newest"
    assert report["hold_out"] == 30  # a tenth, left to the warm start
    card = (encoder / "MODEL_CARD.md").read_text()
    assert "243 sessions over 235 distinct queries" in card
    assert "| contrastive | 30 of 30 |" in card
    folders.read(encoder, kind="nextquery encoder", version=1).verify()
    assert not any(str(file).endswith((".pt", ".bin", ".pkl")) for file in encoder.rglob("*"))


@pytest.mark.parametrize("inside", [".", pytest.param("static", marks=pytest.mark.soak)])
def test_serving_needs_no_torch(log: Path, encoder: Path, tmp_path: Path, inside: str) -> None:
    pool = tmp_path / "pool"
    query = log.read_text().splitlines()[1].split("\t")[-1]
    output = without_torch(
        ["ingest", str(log), "--out", str(pool), "--encoder", str(encoder / inside)],
        ["recommend", str(pool), query, "--json"],
    )
    best = json.loads(output)["recommendations"][0]["query"]
    assert best.split()[0] == query.split()[0]  # sessions keep to their topic


def without_torch(*commands: list[str]) -> str:
    """Run commands in one new process; return what the last one printed."""
    program = (
        "import json, sys\n"
        "sys.modules.update(torch=None, transformers=None)\n"
        "from nextquery.cli import main\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = command\n"
        "    print('---')\n"
        "    try: main()\n"
        "    except SystemExit as end:\n"
        "        if end.code: raise\n"
    )
    python = [sys.executable, "-W", "error", "-c", program, json.dumps(commands)]
    done = subprocess.run(python, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("---\n")[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{few}", "--out", "{tmp}/e"], 3, "at least 20 sessions"),
        (["{word}", "--out", "{tmp}/e"], 3, "at least 20 sessions of 2 or more different queries"),
        (["{log}", "--out", "{tmp}"], 4, "other files"),
        (["{log}", "--out", "{tmp}/e", "--device", "cuda"], 3, "torch sees no GPU"),
        (["{log}", "--out", "{tmp}/e", "--method", "gpt"], 3, "bert, contrastive"),
        (["{log}", "--out", "{tmp}/e", "--hidden", "10"], 3, "multiple of heads"),
        (["{log}", "--out", "{tmp}/e", "--start", "x"], 3, "--method contrastive"),
        (["{log}", "--out", "{tmp}/e", "--seed", "4294967296"], 3, "and at most 4294967295"),
        (
            ["{log}", "--out", "{tmp}/e", "--method", "contrastive", "--hidden", "64"],
            3,
            "dim must be at most hidden, 64",
        ),
    ],
)
def test_mistakes_give_clear_errors(
    log: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    log_file(tmp_path / "few.tsv", 19)
    rows = [f"{s}\t2024-01-01 10:00:0{i}\ttea" for s in range(50) for i in range(2)]
    rows += [f"{s}\t2024-01-01 10:00:0{i}\tcup {i}" for s in range(60, 62) for i in range(4)]
    (tmp_path / "word.tsv").write_text("\n".join(["session_id\ttime\tquery", *rows]) + "\n")
    names = {
        "log": log,
        "tmp": tmp_path,
        "few": tmp_path / "few.tsv",
        "word": tmp_path / "word.tsv",
    }
    options = ["--min-queries", "1", "--skip", "repeats"] if arguments[0] == "{word}" else []
    done = run_here("train", *(a.format(**names) for a in arguments), *options)
    errors = done.stderr
    assert done.returncode == code, errors
    assert message in errors.replace("\n", " ")
    assert "Traceback" not in errors
    assert sorted(os.listdir(tmp_path)) == ["few.tsv", "word.tsv"]  # nothing of the log is left


def test_a_full_disk_loses_nothing(log: Path, encoder: Path, tmp_path: Path) -> None:
    """With a file size limit of 60 kB, the first checkpoint cannot be written."""
    before = {file: file.read_bytes() for file in sorted(encoder.rglob("*")) if file.is_file()}
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, usual[1]))
    try:
        done = run_here(
            *("train", str(log), "--out", str(encoder), "--method", "contrastive", *SAME),
            *("--seed", "1"),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    errors = done.stderr
    assert done.returncode == 4, errors
    assert "could not write" in errors
    assert "There is no checkpoint to continue from" in errors
    assert "last checkpoint" not in errors
    assert not list(encoder.parent.glob(".*.work"))
    assert "Traceback" not in errors
    assert before == {f: f.read_bytes() for f in sorted(encoder.rglob("*")) if f.is_file()}
