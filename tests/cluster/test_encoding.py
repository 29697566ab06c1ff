"""Encoding on a cluster: the same files as locally, whatever happens to workers or driver."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.build.ingest import ingest
from nextquery.build.stages import EncodingPlan, in_this_process
from nextquery.cli import app
from nextquery.cli.options import join
from nextquery.cluster.tasks import on_ray
from nextquery.encode.tokens import pretrained
from nextquery.encode.transformers import TrainedEncoder
from nextquery.errors import InvalidInput, StorageError
from nextquery.folders import Folder
from tests.build.test_ingest import contents
from tests.cluster.workers import kill, raylet, workers_of
from tests.logs_for_tests import pets

BLOCK = 7  # of 36 texts: five whole blocks and one text more


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pets(tmp_path_factory.mktemp("log") / "log.tsv", users=60)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a small onnxruntime network, whose sums are long enough to be split."""
    from onnx import TensorProto, helper, numpy_helper

    tokens, _ = pretrained()
    rng, width = np.random.default_rng(0), 96
    shapes = {"table": (tokens.size, width), "inner": (width, 4 * width), "outer": (4 * width, 16)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["words"]),
        helper.make_node("MatMul", ["words", "inner"], ["wide"]),
        helper.make_node("Tanh", ["wide"], ["bent"]),
        helper.make_node("MatMul", ["bent", "outer"], ["narrow"]),
        helper.make_node("ReduceMean", ["narrow"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("LpNormalization", ["mean"], ["vectors"], axis=1, p=2),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])
    out = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", 16])
    given = [numpy_helper.from_array(weight, name) for name, weight in weights.items()]
    graph = helper.make_graph(nodes, "network", [ids], [out], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    encoder = TrainedEncoder(dim=16).holding(model.SerializeToString(), tokens.json)
    folder = tmp_path_factory.mktemp("network") / "encoder"
    encoder.save(folder)
    return str(folder)


@pytest.mark.soak
@pytest.mark.parametrize("encoder", ["static", "projected", "tuned", "lsa", "network"])
def test_the_pool_is_the_same_byte_for_byte(
    cluster: str, log: Path, tmp_path: Path, encoder: str, request: pytest.FixtureRequest
) -> None:
    name = request.getfixturevalue("network") if encoder == "network" else encoder
    progress: list[float | None] = []
    ingest(log, tmp_path / "here", encoder=name, block=BLOCK)
    ingest(
        log,
        tmp_path / "there",
        encoder=name,
        block=BLOCK,
        encode_blocks=on_ray,
        progress=lambda stage, done: progress.append(done) if stage == "encode" else None,
    )
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert progress == [None, *(pytest.approx(done / 6) for done in range(1, 7))]
    assert not list(tmp_path.glob(".*.work"))


def test_on_the_command_line(
    cluster: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """No output of Ray on either stream, and no file in the working directory.

    (It comes before the tests that kill workers: Ray reports those at any time.)
    """
    join.cache_clear()  # another test's command may have said the address
    monkeypatch.chdir(tmp_path)
    pool = tmp_path / "elsewhere" / "pool"
    options = ["--encoder", "lsa", "--out", str(pool), "--cluster", cluster, "--json"]
    app(["ingest", str(log), *options], standalone_mode=False)
    captured = capfd.readouterr()
    assert json.loads(captured.out)["pool"]["arms"] == 36
    assert f"cluster: {cluster}" in captured.err
    assert "encode: done" in captured.err
    assert not any(word in captured.err for word in ("Ray", "ray::", "Dataset", "INFO", "WARN"))
    assert os.listdir(tmp_path) == ["elsewhere"]
    ingest(log, tmp_path / "here", encoder="lsa")
    assert contents(tmp_path / "here") == contents(pool)


DRIVER = """
import os, signal, sys
from nextquery.cluster import connect
from nextquery.cluster.tasks import on_ray
from nextquery.build.ingest import ingest
connect(sys.argv[3])
def progress(stage, done):
    if stage == "encode" and done is not None:
        os.kill(os.getpid(), signal.SIGKILL)
ingest(
    sys.argv[1], sys.argv[2], encoder="lsa", block=7, encode_blocks=on_ray, progress=progress
)
"""


@pytest.mark.soak
def test_blocks_made_before_the_driver_was_killed_are_found_again(
    cluster: str, log: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", DRIVER, str(log), str(tmp_path / "there"), cluster]
    assert subprocess.run(command).returncode == -9
    assert not (tmp_path / "there").exists()
    remaining: list[int] = []

    def counted(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
        remaining.extend(missing)
        return on_ray(plan, missing)

    done = ingest(log, tmp_path / "there", encoder="lsa", block=BLOCK, encode_blocks=counted)
    assert done.resumed == ("prepare", "fit", "encode")
    assert len(remaining) < 6
    ingest(log, tmp_path / "here", encoder="lsa", block=BLOCK)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_blocks_made_before_an_interrupt_are_found_again(
    cluster: str, log: Path, tmp_path: Path
) -> None:
    def interrupt(stage: str, done: float | None) -> None:
        if stage == "encode" and done is not None:
            raise KeyboardInterrupt

    asked: dict[str, Any] = {"encoder": "lsa", "block": BLOCK}
    with pytest.raises(KeyboardInterrupt):
        ingest(log, tmp_path / "there", encode_blocks=on_ray, progress=interrupt, **asked)
    assert not (tmp_path / "there").exists()
    remaining: list[int] = []

    def counted(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
        remaining.extend(missing)
        return in_this_process(plan, missing)

    done = ingest(log, tmp_path / "there", encode_blocks=counted, **asked)
    assert done.resumed == ("prepare", "fit", "encode")
    assert len(remaining) < 6


@pytest.mark.parametrize("encode", [in_this_process, on_ray])
def test_what_is_wrong_with_an_encoder_is_said_as_it_is_here(
    cluster: str, log: Path, tmp_path: Path, encode: Any
) -> None:
    def other(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
        meta = {"encoder": {**plan.encoder.meta["encoder"], "name": "magic"}}
        wrong = Folder(plan.encoder.path, meta, plan.encoder.files)
        yield from encode(replace(plan, encoder=wrong), missing)

    with pytest.raises(InvalidInput, match="'magic'"):
        ingest(log, tmp_path / "pool", encoder="lsa", block=BLOCK, encode_blocks=other)
    assert not (tmp_path / "pool").exists()


def test_a_folder_that_others_do_not_reach_is_refused(
    cluster: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    local = Path("/proc/self/cwd/pool")  # another folder in every process
    with pytest.raises(InvalidInput, match=r"cannot reach .* path that all machines share"):
        ingest(log, local, encoder="lsa", block=BLOCK, encode_blocks=on_ray)
    ingest(log, local, encoder="lsa", block=BLOCK)
    assert os.listdir(tmp_path) == ["pool"]


def test_a_block_that_is_missing_or_short_is_noticed(log: Path, tmp_path: Path) -> None:
    def lazy(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
        yield from in_this_process(plan, missing[:-1])
        yield missing[-1]

    with pytest.raises(StorageError, match="cannot be used"):
        ingest(log, tmp_path / "pool", encoder="lsa", block=BLOCK, encode_blocks=lazy)
    assert not (tmp_path / "pool").exists()


@pytest.mark.soak
def test_a_worker_killed_in_the_middle_of_a_block_costs_only_time(
    cluster: str, log: Path, network: str, tmp_path: Path
) -> None:
    progress: list[float | None] = []
    parent, killed = raylet(), list[int]()

    def assassin(plan: EncodingPlan, stuck: Path) -> None:
        """Once all other blocks are done and reported, kill the worker of block 3."""
        others = [number for number in range(6) if number != 3]
        # A block's file is there before its task has ended: wait until one worker is left.
        while not all(plan.file(number).exists() for number in others) or len(killed) != 1:
            before = workers_of(parent, "MapBatches")
            time.sleep(0.2)
            killed[:] = set(before).intersection(workers_of(parent, "MapBatches"))
        stuck.unlink()
        for worker in killed:
            kill(worker)

    def endangered(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
        stuck = plan.out / ".3.tries.tmp"
        os.mkfifo(stuck)  # the worker of block 3 waits here for a reader that never comes
        thread = threading.Thread(target=assassin, args=(plan, stuck), daemon=True)
        thread.start()
        yield from on_ray(plan, missing)
        thread.join()

    ingest(log, tmp_path / "here", encoder=network, block=BLOCK)
    ingest(
        log,
        tmp_path / "there",
        encoder=network,
        block=BLOCK,
        encode_blocks=endangered,
        progress=lambda stage, done: progress.append(done) if stage == "encode" else None,
    )
    assert len(killed) == 1
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert progress == [None, *(pytest.approx(done / 6) for done in range(1, 7))]
    assert not list(tmp_path.glob(".*.work"))
