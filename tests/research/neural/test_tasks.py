"""The parts of training, each compared with an oracle."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.encode.transformers import runner
from nextquery.research.neural.data import (
    Adagrad,
    Shuffled,
    TrainingData,
    batch_of,
    bpr_max,
    cross_entropy,
    lane_steps,
)
from nextquery.research.neural.gru4rec import Gru4RecTask, gru_network
from nextquery.research.neural.registry import Gru4RecOptions, SasRecOptions
from nextquery.research.neural.sasrec import SasRecTask
from nextquery.sessions import Sessions
from tests.research.neural.world import ARMS, pool_of, ring

CPU = torch.device("cpu")
ROWS = st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=6), min_size=1, max_size=9)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return TrainingData.of(pool_of(ring(40)))


def task(data: TrainingData, name: str, **params: Any) -> Any:
    if name == "gru4rec":
        usual = {"hidden": 12, "layers": 2, "negatives": 8, "batch": 8}
        return Gru4RecTask(data, Gru4RecOptions(**usual | params), 0, CPU)
    usual = {"hidden": 12, "heads": 3, "batch": 8, "length": 20}
    return SasRecTask(data, SasRecOptions(**usual | params), 0, CPU)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, lanes=st.integers(1, 5), fewest=st.integers(1, 2))
def test_lanes_read_every_session_in_order(rows: list[list[int]], lanes: int, fewest: int) -> None:
    """An oracle lane by lane: each reads a session to its end, then takes the next one."""
    sessions = Sessions.of(rows)
    read: dict[int, list[int]] = {lane: [] for lane in range(lanes)}
    for step in lane_steps(sessions, lanes, fewest=fewest):
        assert len(step.lanes) >= fewest
        for lane, place, fresh in zip(*step, strict=True):
            assert fresh == (place in sessions.offsets[:-1])
            assert fresh or read[lane][-1] == place - 1
            read[lane].append(place)
    begun = [place for places in read.values() for place in places]
    assert len(set(begun)) == len(begun)
    ends = set((sessions.offsets[1:] - 1).tolist())
    assert not set(begun) & ends  # the last query has no next one
    if fewest == 1:
        assert sorted(begun) == [p for p in range(len(sessions.arms)) if p not in ends]


def test_the_losses_are_their_formulas(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(3, 7))
    own = torch.from_numpy(scores)
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert float(cross_entropy(own)) == pytest.approx(-np.log(np.diag(softmax)).sum())
    for elu in (0.0, 0.5):
        total = 0.0
        s = np.where(scores > 0, scores, elu * (np.exp(scores) - 1)) if elu else scores
        for row in range(3):
            others = [column for column in range(7) if column != row]
            weights = np.exp(s[row, others]) / np.exp(s[row, others]).sum()
            better = 1 / (1 + np.exp(s[row, others] - s[row, row]))
            total += -np.log((weights * better).sum()) + 0.7 * (weights * s[row, others] ** 2).sum()
        assert float(bpr_max(own, elu=elu, regularisation=0.7)) == pytest.approx(total)


@pytest.mark.parametrize("sparse", [True, False])
def test_adagrad_by_hand(sparse: bool) -> None:
    """Three steps of a table of which a batch reads some rows, one of them twice."""
    table = torch.nn.Embedding(4, 2, sparse=sparse)
    weight = table.weight.detach().numpy().astype(np.float64)
    squares, speed = np.zeros((4, 2)), np.zeros((4, 2))
    optimizer = Adagrad([{"params": [table.weight]}], momentum=0.5)
    optimizer.param_groups[0]["lr"] = 0.1
    for rows in ([0, 1, 1], [1, 3], [0, 1]):
        optimizer.zero_grad(set_to_none=True)
        (table(torch.tensor(rows)) ** 2).sum().backward()
        gradient = 2 * weight * np.bincount(rows, minlength=4)[:, None]
        moved = np.bincount(rows, minlength=4) > 0 if sparse else np.ones(4, bool)
        squares[moved] += gradient[moved] ** 2
        change = 0.5 * speed - 0.1 * gradient / np.sqrt(squares + 1e-6)
        speed[moved] = change[moved]
        weight[moved] += change[moved]
        optimizer.step()
    assert np.allclose(table.weight.detach().numpy(), weight, atol=1e-6)


@given(rows=ROWS, length=st.integers(1, 6))
def test_a_batch_has_every_next_query(rows: list[list[int]], length: int) -> None:
    batch = batch_of(Sessions.of(rows), np.arange(len(rows)), length=length, device="cpu")
    newest = [row[-length - 1 :] for row in rows]
    assert batch.targets.tolist() == [arm for row in newest for arm in row[1:]]
    for items, steps, row in zip(batch.items, batch.steps, newest, strict=True):
        assert items[steps].tolist() == row[:-1]
        assert not items[~steps].any()


def test_an_epoch_reads_every_session_once_in_another_order() -> None:
    shuffled = Shuffled(50, 8, seed=3)
    epochs = [
        np.concatenate([shuffled.of_step(7 * epoch + step) for step in range(7)]).tolist()
        for epoch in (0, 1)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(50))] * 2
    assert epochs[0] != epochs[1]
    assert shuffled.of_step(0).tolist() == epochs[0][:8]  # whatever was asked before


@pytest.mark.parametrize("name", ["gru4rec", "sasrec"])
@pytest.mark.parametrize("items", ["text", "learned", "both"])
def test_nothing_looks_ahead_and_padding_does_not_matter(
    data: TrainingData, name: str, items: str
) -> None:
    made = task(data, name, items=items)
    network, inputs = made.module.network.eval(), made.module.inputs
    with torch.no_grad():
        for weight in made.module.parameters():  # tables may begin as zeros
            weight += 0.05 * torch.randn_like(weight)
        session = inputs(torch.tensor([[3, 4, 5, 6, 7]]))
        changed = inputs(torch.tensor([[3, 4, 5, 9, 0]]))
        whole, other, short = network(session), network(changed), network(session[:, :3])
    assert torch.allclose(whole[:, :3], other[:, :3], atol=1e-6)
    assert not torch.allclose(whole[:, 3], other[:, 3], atol=1e-3)
    assert torch.allclose(whole[:, :3], short, atol=1e-6)


def test_the_state_of_a_lane_is_that_of_its_session(data: TrainingData) -> None:
    """Step by step in lanes, or the whole session at once: the same; a new session starts anew."""
    made = task(data, "gru4rec", batch=3, items="learned")
    made.module.eval()
    arms = data.training.arms
    with torch.no_grad():
        for at, lane in enumerate(made._epoch[:30]):
            made.loss(at)
            for number, place in zip(lane.lanes, lane.places, strict=True):
                begin = data.training.offsets[:-1]
                first = int(begin[begin <= place].max())
                rows = made.module.inputs(torch.from_numpy(arms[first : place + 1]))
                whole = made.module.network(rows[None])[0, -1]
                assert torch.allclose(made.module.lanes[-1, number], whole, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_exported_gru_is_that_of_torch(data: TrainingData, layers: int) -> None:
    """For sessions of any length."""
    network = task(data, "gru4rec", layers=layers).module.network.eval()
    with torch.no_grad():
        for weight in network.parameters():  # biases begin as zeros
            weight += 0.3 * torch.randn_like(weight)
        run = runner(gru_network(list(network.layers), "items", "state"))
        for length in (1, 2, 30):
            rows = torch.randn(2, length, 12)
            (served,) = run(["state"], {"items": rows.numpy()})
            assert np.abs(served - network(rows)[:, -1].numpy()).max() < 1e-5


def test_negatives_are_drawn_by_popularity() -> None:
    """Item 0 is asked 16 times as often as item 1, which is 4 times with the power 0.5."""
    rows = [[0, 2] if number % 17 else [1, 2] for number in range(340)]
    counted = TrainingData.of(pool_of(Sessions.of(rows), arms=3))
    made = Gru4RecTask(counted, Gru4RecOptions(negatives=60_000), 0, CPU)
    drawn = np.bincount(made._negatives(5), minlength=3)
    wanted = np.sqrt(counted.counts) / np.sqrt(counted.counts).sum()
    assert np.abs(drawn / 60_000 - wanted).max() < 0.01
    assert made._negatives(5).tolist() == made._negatives(5).tolist() != made._negatives(6).tolist()


def test_drawn_negatives_of_all_items_are_the_whole_softmax(data: TrainingData) -> None:
    """If every item is drawn once, and the target does not count twice."""
    made = task(data, "sasrec", dropout=0.0)
    batch = batch_of(data.training, np.arange(5), length=20, device=CPU)
    states = made.module.network(made.module.inputs(batch.items))[batch.steps]
    whole = torch.nn.functional.cross_entropy(made.module.scores(states), batch.targets)
    drawn = made.loss_among(states, batch.targets, torch.arange(len(data.texts)))
    assert drawn.item() == pytest.approx(whole.item(), 1e-5)
    few = task(data, "sasrec", negatives=5)
    assert few.loss(0).item() < whole.item()  # fewer negatives


def test_ties_count_against_the_model(data: TrainingData) -> None:
    """All scores equal: the next query is last, never by luck among the first."""
    made = task(data, "gru4rec", items="learned")
    with torch.no_grad():
        for weight in made.module.parameters():
            weight.zero_()
    measured = made.measured(data.validation)
    assert (measured.recall, measured.mrr) == (0.0, 0.0)
    assert measured.perplexity == pytest.approx(ARMS)
    assert measured.steps == (data.validation.lengths - 1).sum()


def test_only_what_was_trained_is_saved(tmp_path: Path) -> None:
    """An item that only validation sessions have has no row of its own."""
    rows = [[number % 5, 5] for number in range(40)] + [[6, 5]] * 4
    sessions = Sessions.of(rows)
    made = task(TrainingData.of(pool_of(sessions, arms=7), seed=1), "gru4rec", items="both")
    trained = np.unique(made.data.training.arms)
    assert made.learned_items.tolist() == trained.tolist()
    arrays = made.arrays()
    assert len(arrays["input_table"]) == len(arrays["bias"]) == len(trained)
