"""CFAN in a world where only clicks tell what comes next, and its parts."""

from itertools import repeat
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

import nextquery as nq
from nextquery import ArmPool
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.research.neural import train
from nextquery.research.neural.cfan import CfanTask, click_batch, click_sessions_of, clicked
from nextquery.research.neural.registry import CfanOptions, Running
from nextquery.research.replay.players import Stream, StreamOptions, contestant, play_rival
from nextquery.research.rivals.rival import NO_CANDIDATES
from nextquery.sessions import Sessions
from nextquery.vectors import unit_rows
from tests.research.neural.world import DAY

START, MIDDLE, CLICKED, TYPED, DECOY = range(5)
TEXTS = ["start", "middle", "after a click", "after typing", "decoy", *(f"q{n}" for n in range(7))]
CPU = torch.device("cpu")


def pool() -> ArmPool:
    vectors = unit_rows(np.random.default_rng(8).normal(size=(len(TEXTS), 6)))
    return ArmPool.from_vectors(TEXTS, vectors)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write entries as an export has them."""
    names = ("position", "time", "session_id", "query", "state", "ordinal", "text", "accepted")
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE entries (position BIGINT, time TIMESTAMPTZ, session_id VARCHAR, query "
            "VARCHAR, state VARCHAR, ordinal INTEGER, text VARCHAR, accepted BOOLEAN, clicked "
            "TIMESTAMPTZ)"
        )
        for row in rows:
            connection.execute(
                "INSERT INTO entries VALUES (?, to_timestamp(?), ?, ?, ?, ?, ?, ?, "
                "to_timestamp(?))",
                [*(row[name] for name in names), row.get("clicked")],
            )
        connection.execute(f"COPY entries TO '{path}' (FORMAT parquet)")
    return path


def decision(
    position: int,
    time: float,
    session: str,
    query: str,
    shown: list[str],
    accepted: str = "",
    state: str = "",
) -> list[dict[str, Any]]:
    return [
        {
            "position": position,
            "time": time,
            "session_id": session,
            "query": query,
            "state": state or ("accepted" if accepted else "failed"),
            "ordinal": ordinal,
            "text": text,
            "accepted": text == accepted,
            "clicked": time + 5 if text == accepted else None,
        }
        for ordinal, text in enumerate(shown, start=1)
    ]


def habits(path: Path, days: int = 60) -> Path:
    """From "start" all go on to "middle", and what comes then depends on how they got there."""
    rows = []
    for day in range(days):
        clicks, at = day % 2 == 0, day * DAY
        name, shown = f"s{day}", ["middle", "decoy", "q0"]
        rows += decision(3 * day, at, name, "start", shown, "middle" if clicks else "")
        last = "after a click" if clicks else "after typing"
        rows += decision(3 * day + 1, at + 60, name, "middle", ["q1", "q2"])
        rows += decision(3 * day + 2, at + 120, name, last, ["q3"])
    return write(path, rows)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("habits")
    pool().save(path / "pool")
    export = habits(path / "log.parquet")
    method = "cfan@hidden=16,epochs=25,batch=8,rate=0.02,dropout=0"
    running = Running(checks=5, device="cpu")
    report = train(path / "pool", path / "cfan", method, running, clicks=export, until=50 * DAY)
    assert report["onnx_worst_difference"] < 1e-4
    assert report["data"]["training_sessions"] == 45
    assert 49 * DAY < report["knows_until"] <= 50 * DAY
    return path


def test_the_same_queries_after_a_click_or_without(world: Path) -> None:
    rival = nq.rival("cfan", [], pool=pool(), model=world / "cfan")
    step = nq.Step(0, [START, MIDDLE], unseen=True)
    assert rival.rank(step, 1).tolist() == [TYPED]
    assert rival.rank(step._replace(accepted=[MIDDLE]), 1).tolist() == [CLICKED]
    first = rival.rank(nq.Step(0, [START], unseen=True), 9).tolist()
    assert first[0] == MIDDLE
    assert rival.rank(step._replace(accepted=[DECOY]), 1).tolist() == [TYPED]  # not of the session


def test_the_stream_says_what_was_accepted(world: Path) -> None:
    """Every answer is shown, so it counts as accepted; then the next one is certain."""
    sessions = Sessions.of([[START, MIDDLE, CLICKED]] * 60)
    asked = np.array([day * DAY + 60.0 * step for day in range(60) for step in range(3)])
    sessions = sessions._replace(asked=asked, times=asked[::3])
    name = f"cfan@model={world / 'cfan'}"
    options = StreamOptions(since="1970-02-21", warm=0, policies=[name], pool="all", shown=20)
    stream = Stream.of(sessions, options.span, len(TEXTS))
    played = play_rival(stream, options, contestant(name), repeat(NO_CANDIDATES), pool=pool())
    assert {step.rank for step in played} == {1}


def test_reading_an_export(tmp_path: Path) -> None:
    """Clicks that ran next, clicks that did not, repeats, other queries, and what was not shown."""
    made = pool()
    path = write(
        tmp_path / "log.parquet",
        [
            *decision(1, 10.0, "a", "start", ["middle", "decoy"], "middle"),
            *decision(2, 20.0, "b", "START", ["q0", "elsewhere"], state="undelivered"),
            *decision(3, 30.0, "a", "middle", ["q1"], "q1"),
            *decision(4, 40.0, "b", "start", ["q2", "q3"]),
            *decision(5, 50.0, "a", "unknown", ["q4"]),
            *decision(6, 60.0, "b", "decoy", ["q4"], "q4"),
        ],
    )
    read = click_sessions_of(path, made.find, None)
    first, second = read.sessions
    assert first.arms == [START, MIDDLE, TEXTS.index("q1")]
    assert first.accepted == [False, True, True]
    assert first.asked == [10.0, 30.0, 35.0]
    assert first.shown == [[DECOY], [], []]
    assert second.arms == [START, DECOY, TEXTS.index("q4")]
    assert second.accepted == [False, False, True]
    assert second.shown == [[TEXTS.index("q2"), TEXTS.index("q3")], [], []]
    assert read.unknown == 1 + (made.find("START") is None)
    cut = click_sessions_of(path, made.find, 62.0).sessions[1]
    assert (cut.arms, cut.shown[1]) == ([START, DECOY], [TEXTS.index("q4")])  # the click was later


def test_a_batch_by_hand(world: Path) -> None:
    """Of every session the accepted queries so far, and all that the next query must be before."""
    data = clicked(pool(), world / "log.parquet", until=None, hold_out=0, note=print)
    assert data.slates is not None
    drawn = np.array([[0, 1]])
    made = click_batch(data.training, data.slates, np.arange(4), drawn, length=9, device="cpu")
    texts = np.array(data.texts)
    for row in range(4):
        session = texts[data.training.of_number(row)].tolist()
        assert session[:2] == ["start", "middle"]
        clicks = session[2] == "after a click"
        taken = made.upto[row].tolist()
        assert taken == ([0, 1] if clicks else [0, 0])
        assert not clicks or texts[made.accepted[row, 0]] == "middle"
    first = texts[made.shown[0][made.real[0]].numpy()].tolist()
    target = texts[made.batch.targets[0]]
    assert target == "middle"
    assert set(first) - set(texts[[0, 1]]) == {"decoy", "q0"} - set(texts[[0, 1]])
    assert target not in first


def test_the_perturbation_is_the_normalised_gradient(world: Path) -> None:
    data = clicked(pool(), world / "log.parquet", until=None, hold_out=0, note=print)
    options = CfanOptions(hidden=6, batch=4, dropout=0.0, perturbation=0.3, adversarial=2.0)
    task = CfanTask(data, options, 0, CPU)
    rows, taken = torch.randn(3, 4, 6), torch.randn(3, 2, 6)
    gradients = (torch.randn(3, 4, 6), torch.randn(3, 2, 6))
    moved = task.perturbed((rows, taken), gradients)
    for session in range(3):
        change = [
            (after - before)[session] for after, before in zip(moved, (rows, taken), strict=True)
        ]
        whole = torch.cat([each.flatten() for each in change])
        slope = torch.cat([each[session].flatten() for each in gradients])
        assert whole.norm().item() == pytest.approx(0.3, rel=1e-5)
        assert torch.allclose(whole, 0.3 * slope / slope.norm(), atol=1e-6)
    plain = CfanTask(data, CfanOptions(hidden=6, batch=4, dropout=0.0, adversarial=0.0), 0, CPU)
    still = CfanTask(data, CfanOptions(hidden=6, batch=4, dropout=0.0, perturbation=0.0), 0, CPU)
    base = plain.loss(0).item()
    assert still.loss(0).item() == pytest.approx(2 * base, rel=1e-5)  # unmoved: the loss twice
    assert task.loss(0).item() > 3 * base  # an adversarial example is harder


def test_it_starts_from_chance(world: Path) -> None:
    """With weights of zero every pair costs log 2."""
    data = clicked(pool(), world / "log.parquet", until=None, hold_out=0, note=print)
    task = CfanTask(data, CfanOptions(hidden=6, batch=4, adversarial=0.0), 0, CPU)
    with torch.no_grad():
        for weight in task.module.parameters():
            weight.zero_()
    assert task.loss(0).item() == pytest.approx(np.log(2))


def test_wrong_exports_give_clear_errors(world: Path, tmp_path: Path) -> None:
    nobody = write(
        tmp_path / "nobody.parquet",
        [
            row
            for day in range(30)
            for row in [
                *decision(2 * day, day * DAY, f"s{day}", "start", ["decoy"]),
                *decision(2 * day + 1, day * DAY + 9, f"s{day}", "middle", ["decoy"]),
            ]
        ],
    )
    few = habits(tmp_path / "few.parquet", days=5)
    (tmp_path / "text.parquet").write_text("position,time\n")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'other.parquet'}'")
    for method, export, message in (
        ("cfan", None, "cfan learns from recommendations that were accepted. Pass an export"),
        ("sasrec", few, "--clicks has no effect. Leave it out, or use --method cfan"),
        ("cfan", tmp_path / "no.parquet", "there is no file"),
        ("cfan", tmp_path / "text.parquet", "is not an export of the service's log"),
        ("cfan", tmp_path / "other.parquet", "it has no column 'position'"),
        ("cfan", few, "training needs at least 20 sessions .* has 5 on this pool"),
        ("cfan", nobody, "nobody accepted a recommendation"),
        ("cfan@perturbation=-1", few, "perturbation must be a number"),
    ):
        with pytest.raises(InvalidInput, match=message):
            train(world / "pool", tmp_path / "model", method, Running(device="cpu"), clicks=export)
    assert not list(tmp_path.glob("*model*"))


def test_the_past_of_a_memory_matters_as_for_others(world: Path) -> None:
    memory = SessionMemory(Sessions.of([[TYPED, DECOY]]))
    rival = nq.rival("cfan", memory, pool=pool(), model=world / "cfan")
    assert set(rival.rank(nq.Step(2, [START, MIDDLE]), 9).tolist()) == {TYPED, DECOY}
