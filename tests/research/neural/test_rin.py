"""RIN and the anchor that it moves, in a world where every reformulation is the same vector."""

from pathlib import Path

import numpy as np
import pytest
import torch

import nextquery as nq
from nextquery import ArmPool
from nextquery.arms.origin import Origin
from nextquery.arms.texts import Texts
from nextquery.encode.transformers import runner
from nextquery.errors import InvalidInput
from nextquery.research import replay
from nextquery.research.neural import train
from nextquery.research.neural.data import TrainingData
from nextquery.research.neural.gru4rec import Recurrent
from nextquery.research.neural.registry import RinOptions, Running
from nextquery.research.neural.rin import RinTask
from nextquery.research.neural.serve import (
    ANCHOR,
    NETWORK,
    OUT,
    SESSION,
    MovedAnchor,
    selection_named,
)
from nextquery.sessions import Sessions
from tests.research.neural.world import DAY

TOPICS, LEARNT = 60, 40
UNTIL = LEARNT * DAY


def stages() -> ArmPool:
    """A query about every topic, "what", is always followed by "how" about the same topic.

    All of a stage are alike, so the most similar queries are those of other topics. But from "what"
    to "how" the vector always changes by the same: c·(0, …, 0, −1, 1).
    """
    rng = np.random.default_rng(3)
    topics = rng.normal(size=(TOPICS, 12))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    stage = np.repeat(np.eye(2), TOPICS, axis=0)
    vectors = np.hstack([0.5 * np.vstack([topics, topics]), 0.75**0.5 * stage])
    texts = [f"{word} {topic}" for word in ("what", "how") for topic in range(TOPICS)]
    rows = [[topic, TOPICS + topic] for topic in range(TOPICS)]
    sessions = Sessions.of(rows)
    asked = np.array([topic * DAY + 60.0 * step for topic in range(TOPICS) for step in range(2)])
    sessions = sessions._replace(asked=asked, times=asked[::2])
    table, counts = Texts(), np.ones(len(texts), np.int64)
    table.append(texts)
    return ArmPool(
        table, vectors.astype(np.float32), origin=Origin(texts, counts, counts, sessions, True)
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stages")
    stages().save(path / "pool")
    method = "rin@hidden=16,epochs=60,batch=8,rate=0.02,dropout=0"
    train(path / "pool", path / "rin", method, Running(checks=4, device="cpu"), until=UNTIL)
    return path


def test_the_moved_anchor_finds_the_reformulated_query_of_a_topic_never_seen(world: Path) -> None:
    pool = stages()
    moved, plain = MovedAnchor(world / "rin", k=1), nq.MaxUtility(k=1)
    new = range(LEARNT, TOPICS)
    for selector, share in ((moved, 1.0), (plain, 0.0)):
        rec = nq.Recommender(pool, selector, nq.MostSimilar(top=1))
        found = [rec.start(pool.texts[topic]).recommend() for topic in new]
        assert all(choice is not None for choice in found)
        right = [c.arm == TOPICS + topic for c, topic in zip(found, new, strict=True) if c]
        assert np.mean(right) == share
    anchors = moved.anchors(pool, pool.vectors[LEARNT:TOPICS], [()] * len(new))
    assert np.allclose(anchors, pool.vectors[TOPICS + LEARNT :], atol=0.15)


def test_similarities_stay_those_with_the_query(world: Path) -> None:
    pool = stages()
    rec = nq.Recommender(pool, MovedAnchor(world / "rin", k=5), nq.MostSimilar(top=1))
    (selected,) = rec.select([rec.place("what 50")], [rec.start("what 50").state])
    assert selected.arms[0] == TOPICS + 50
    assert selected.similarities == pytest.approx(pool.vectors[selected.arms] @ pool.vectors[50])
    assert not rec.reusable  # the same query in another session has another anchor


def test_in_the_stream_by_name(world: Path, tmp_path: Path) -> None:
    """Every answer is a candidate of the moved anchor, and none of the plain one."""
    pool = ArmPool.open(world / "pool")
    past = replay.sessions_of(pool)
    covered: dict[str, float] = {}
    for name in (f"max-utility@anchor={world / 'rin'}", "max-utility"):
        options = replay.StreamOptions(
            since="1970-02-10",
            warm=5,
            selection=name,
            k=1,
            pool="all",
            policies=["most-similar-first"],
        )
        out = replay.run_stream(pool, past, tmp_path / str(len(covered)), options, processes=1)

        rows = [line.split(",") for line in (out / "stream.csv").read_text().splitlines()]
        last = dict(zip(rows[0], rows[-1], strict=True))
        covered[name] = float(last["hit_at_m"])
    assert list(covered.values()) == [1.0, 0.0]
    options = replay.StreamOptions(
        since="1970-01-05",
        warm=0,
        selection=f"max-utility@anchor={world / 'rin'}",
        k=1,
        policies=["most-similar-first"],
    )
    with pytest.raises(
        InvalidInput, match=r"has seen what it would be tested on.*--until 1970-01-0"
    ):
        replay.run_stream(pool, past, tmp_path / "early", options, processes=1)


def test_a_recommender_with_a_moved_anchor_is_saved(world: Path, tmp_path: Path) -> None:
    rec = nq.Recommender(stages(), MovedAnchor(world / "rin", k=3), nq.MostSimilar(top=1))
    rec.save(tmp_path / "rec")
    again = nq.Recommender.open(tmp_path / "rec")
    first, second = rec.start("what 50").recommend(), again.start("what 50").recommend()
    assert first is not None
    assert second is not None
    assert (first.arm, again.selector.get_params()) == (second.arm, rec.selector.get_params())


def test_wrong_anchors_give_clear_errors(
    world: Path, trained: dict[str, tuple[Path, dict[str, object]]], pool: ArmPool
) -> None:
    with pytest.raises(InvalidInput, match="is a model of sasrec, and only rin predicts an anchor"):
        selection_named(f"max-utility@anchor={trained['sasrec'][0]}")
    with pytest.raises(InvalidInput, match="no parameter 'anchor'"):
        selection_named("zooming@anchor=3")
    named = selection_named(f"max-utility@anchor={world / 'rin'},utility=log-det", k=7)
    assert (named.k, named.get_params()["utility"]) == (7, "log-det")
    with pytest.raises(InvalidInput, match="trained with other vectors"):
        MovedAnchor(world / "rin").anchors(pool, pool.vectors[:1], [()])


def test_the_first_loss_is_that_of_the_similarities() -> None:
    """Before it learnt anything, the score is 10 times the similarity, and Δ̂ is 0."""
    data = TrainingData.of(stages())
    task = RinTask(data, RinOptions(dropout=0.0, batch=4, inference=2.0), 0, torch.device("cpu"))
    batch = task.batch(3)
    now, then = batch.items[batch.steps].numpy(), batch.targets.numpy()
    scores = 10 * data.vectors[now] @ data.vectors.T
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    entropy = -logs[np.arange(len(then)), then].mean()
    squares = ((data.vectors[then] - data.vectors[now]) ** 2).sum(axis=1).mean()
    assert task.loss(3).item() == pytest.approx(entropy + 2.0 * squares, rel=1e-5)


def test_the_anchor_as_onnx_is_that_of_torch() -> None:
    """For sessions of any length; and nothing of it looks ahead."""
    task = RinTask(TrainingData.of(stages()), RinOptions(hidden=8), 0, torch.device("cpu"))
    network = task.module.network.eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.2 * torch.randn_like(weight)
        run = runner(task.networks()[NETWORK])
        whole = torch.randn(1, 6, 14)
        states, inferred = network.both(whole)
        for length in (1, 2, 6):
            out, anchor = run([OUT, ANCHOR], {SESSION: whole[:, :length].numpy()})
            assert np.abs(out - states[:, length - 1].numpy()).max() < 1e-4
            predicted = whole[:, length - 1] + inferred[:, length - 1]
            assert np.abs(anchor - predicted.numpy()).max() < 1e-4


@pytest.mark.soak
@pytest.mark.parametrize("scale", [10.0, 1e5])
def test_an_exported_network_agrees_whatever_the_scale_of_its_scores(scale: float) -> None:
    """Rounding grows with the scores, so only a share of them tells another network."""
    task = RinTask(TrainingData.of(stages()), RinOptions(hidden=8), 0, torch.device("cpu"))
    with torch.no_grad():
        task.module.network.scale.fill_(float(np.log(scale)))
        for weight in task.module.network.reader.parameters():
            weight += 0.2 * torch.randn_like(weight)
    task.to_cpu()
    networks = task.networks()
    assert task.difference(networks) < 1e-6
    with torch.no_grad():
        task.module.network.wanted.bias += 0.01 * scale
    assert task.difference(networks) > 1e-3


@pytest.mark.parametrize("both", [False, True])
def test_a_recurrent_layer_ignores_padding(both: bool) -> None:
    layer = Recurrent(4, 3, both=both)
    rows = torch.randn(3, 5, 4)
    with torch.no_grad():
        every, last = layer(rows, torch.tensor([5, 1, 3]))
        for number, size in enumerate((5, 1, 3)):
            alone, end = layer(rows[number : number + 1, :size])
            assert torch.allclose(every[number, :size], alone[0], atol=1e-6)
            assert torch.allclose(last[number], end[0], atol=1e-6)
