"""ACG in a world where only copying helps, and its parts, each compared with an oracle."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nextquery as nq
from nextquery import ArmPool
from nextquery.arms.origin import Origin
from nextquery.arms.texts import Texts
from nextquery.memory import SessionMemory
from nextquery.research.neural import train
from nextquery.research.neural.acg import AcgNetwork, AcgTask, Served, SessionWords, log_likelihoods
from nextquery.research.neural.data import TrainingData, batch_of
from nextquery.research.neural.registry import AcgOptions, Running
from nextquery.research.neural.serve import END, RARE, Acg, Vocabulary
from nextquery.selection import Candidates
from nextquery.sessions import Sessions
from nextquery.vectors import unit_rows
from tests.research.neural.world import DAY

WORDS, LEARNT = 100, 80
UNTIL = LEARNT * DAY


def purchases() -> ArmPool:
    """Whoever wants to "find" a thing then wants to "buy" it; every session has another thing."""
    texts = [f"{what} thing{number}" for what in ("find", "buy") for number in range(WORDS)]
    sessions = Sessions.of([[number, WORDS + number] for number in range(WORDS)])
    asked = np.array([day * DAY + 60.0 * step for day in range(WORDS) for step in range(2)])
    sessions = sessions._replace(asked=asked, times=asked[::2])
    table, counts = Texts(), np.ones(len(texts), np.int64)
    table.append(texts)
    vectors = unit_rows(np.random.default_rng(5).normal(size=(len(texts), 8)))
    return ArmPool(table, vectors, origin=Origin(texts, counts, counts, sessions, True))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("purchases")
    purchases().save(path / "pool")
    method = "acg@hidden=16,epochs=25,batch=16,rate=0.02,dropout=0,vocabulary=2"
    running = Running(checks=3, device="cpu")
    report = train(path / "pool", path / "model", method, running, until=UNTIL)
    assert report["onnx_worst_difference"] < 1e-4
    return path / "model"


def test_a_word_that_nobody_used_before_is_copied(world: Path) -> None:
    """Things of the last days are in no vocabulary, but in the query just before."""
    arms, new = np.arange(WORDS, 2 * WORDS), range(LEARNT, WORDS)
    rival = nq.rival("acg", [], pool=purchases(), model=world)
    buy = Candidates(arms, np.empty((WORDS, 0), np.float32), np.zeros(WORDS), np.zeros(WORDS))
    best = [int(rival.rank(nq.Step(0, [now], buy, unseen=True), 1)[0]) for now in new]
    assert best == [WORDS + now for now in new]


def test_without_copying_such_words_are_all_the_same(world: Path) -> None:
    data = TrainingData.of(purchases(), until=UNTIL)
    task = AcgTask(data, AcgOptions(vocabulary=2, copy=False), 0, torch.device("cpu"))
    buy = np.flatnonzero(["buy" in text for text in data.texts])
    with torch.no_grad():
        scores = Served(task.module.eval())(*task.words.rows(buy[:1]), *task.words.rows(buy))
    assert np.ptp(scores.numpy()) < 1e-6


def test_it_ranks_the_candidates_and_what_the_memory_recalls(world: Path) -> None:
    pool = purchases()
    memory = SessionMemory(Sessions.of([[1, WORDS + 1, 2], [1, 3]]))
    rival = nq.rival("acg", memory, pool=pool, model=world)
    assert isinstance(rival, Acg)
    assert rival.uses_selection
    step = nq.Step(before=len(memory), history=[1])
    assert rival.rank(step, 9).tolist()[0] == WORDS + 1
    assert set(rival.rank(step, 9).tolist()) == {WORDS + 1, 2, 3}  # recalled, not selected
    chosen = Candidates(
        np.array([WORDS + 1, 3]), np.empty((2, 0), np.float32), np.zeros(2), np.zeros(2)
    )
    assert rival.ranking(step._replace(before=0, selected=chosen), 9).arms.tolist() == []
    first = rival.ranking(step._replace(before=0, selected=chosen, unseen=True), 9).arms.tolist()
    assert first == [WORDS + 1, 3]
    assert rival.rank(step._replace(history=[9]), 5).tolist() == []  # nothing to rank


def test_words_are_known_by_training_sessions_only(world: Path) -> None:
    data = TrainingData.of(purchases(), until=UNTIL)
    task = AcgTask(data, AcgOptions(vocabulary=9999), 0, torch.device("cpu"))
    trained = {word for item in data.training.arms for word in data.texts[item].split()}
    assert set(task.vocabulary.words) == trained
    assert len(trained) < LEARNT  # those of the validation sessions are not there


def small_task(**params: Any) -> AcgTask:
    rng = np.random.default_rng(2)
    words = [f"w{number}" for number in range(12)]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 5))) for _ in range(40)]
    texts = [f"{text} {number}" for number, text in enumerate(texts)]
    sessions = Sessions.of([rng.integers(40, size=rng.integers(2, 6)).tolist() for _ in range(60)])
    sessions = sessions.without_repeats()
    table, counts = Texts(), np.ones(40, np.int64)
    table.append(texts)
    pool = ArmPool(
        table,
        unit_rows(rng.normal(size=(40, 6))),
        origin=Origin(texts, counts, counts, sessions, True),
    )
    usual = {"hidden": 6, "batch": 8, "length": 3, "vocabulary": 8, "words": 4}
    made = AcgTask(TrainingData.of(pool), AcgOptions(**usual | params), 0, torch.device("cpu"))
    with torch.no_grad():
        for weight in made.module.parameters():
            weight += 0.5 * torch.randn_like(weight)
    made.module.eval()
    return made


@pytest.mark.parametrize("copy", [True, False])
def test_a_batch_is_read_as_each_step_alone(copy: bool) -> None:
    """Whatever else is in the batch, and however long it is: nothing looks ahead."""
    task = small_task(copy=copy)
    training = task.data.training
    which = np.arange(9)
    batch = batch_of(training, which, length=3, device="cpu")
    together, alone = log_likelihoods(task.module, task.words, batch), []
    served = Served(task.module)
    ends = np.cumsum(task.words.all.sizes[batch.targets.numpy()] + 1)
    wholes = [part.mean().item() for part in together.split(np.diff(ends, prepend=0).tolist())]
    for session in which.tolist():
        row = training.of_number(session)[-4:]
        for end in range(1, len(row)):
            rows = (task.words.rows(row[:end]), task.words.rows(row[end : end + 1]))
            alone.append(served(*rows[0], *rows[1]).item())
    assert wholes == pytest.approx(alone, abs=1e-5)


def test_attention_and_the_switch_by_hand() -> None:
    """One place after two queries of two and one words, step by step in numpy."""
    torch.manual_seed(4)
    net = AcgNetwork(5, 3, 4, 0.0, copy=True).eval()
    states, words, queries = torch.randn(1, 1, 4), torch.randn(1, 2, 2, 8), torch.randn(1, 2, 4)
    keys = torch.tensor([[[7, 8], [7, 0]]])
    said = SessionWords(words, keys, torch.tensor([[[True, True], [True, False]]]), queries)
    known = torch.ones(1, 1, 2, dtype=torch.bool)
    with torch.no_grad():
        found, copied = net.attend(states, said, known, torch.tensor([[7]]))
        state, w, q = states[0, 0].numpy(), words[0].numpy(), queries[0].numpy()
        of_words, of_queries = (
            layer.weight.numpy() for layer in (net.word_attention, net.query_attention)
        )
        share = softmax(np.array([state @ of_queries @ each for each in q]))
        within = softmax(np.array([state @ of_words @ each for each in w[0]]))
        context = share[0] * (within @ w[0]) + share[1] * w[1, 0]
        assert found[0, 0].numpy() == pytest.approx(context, abs=1e-5)
        assert copied.item() == pytest.approx(share[0] * within[0] + share[1], abs=1e-6)
        before = torch.randn(1, 4)
        log = net.logs(states[0], found[0], before, torch.tensor([RARE]), copied[0])
        out = np.tanh(net.joined.weight.numpy() @ [*state, *context] + net.joined.bias.numpy())
        made = softmax(net.words.weight.numpy() @ out + net.bias.numpy())[RARE] / 3
        assert net.switch is not None
        row = np.concatenate([state, context, before[0].numpy()])
        p = 1 / (1 + np.exp(-(net.switch.weight.numpy()[0] @ row + net.switch.bias.item())))
        assert log.exp().item() == pytest.approx(p * copied.item() + (1 - p) * made, rel=1e-4)


def softmax(scores: Any) -> Any:
    return np.exp(scores) / np.exp(scores).sum()


def test_the_probabilities_of_all_words_add_up_to_one() -> None:
    """Every known word, the end, and as many rare words as there are."""
    task = small_task()
    net = task.module
    said_ids, said_keys, said_sizes = task.words.rows(np.array([3]))
    vocabulary = task.vocabulary
    texts = [*vocabulary.words, *(f"other{number}" for number in range(vocabulary.rare))]
    some = vocabulary.rows(texts)
    said = set(said_keys[0, : said_sizes[0]].tolist())
    with torch.no_grad():
        alone = [torch.from_numpy(each[:, :1]) for each in some[:2]]
        states, vectors = net.read_words(said_ids, said_sizes)
        queries = net.read_queries(vectors[None])
        flags = torch.arange(said_ids.shape[1]) < said_sizes[:, None]
        one = SessionWords(states[None], said_keys[None], flags[None], queries)
        ids = torch.cat([alone[0], torch.tensor([[END]])])
        keys = torch.cat([alone[1], torch.tensor([[0]])])
        for number in said - set(keys[:, 0].tolist()):  # rare words of the session
            ids, keys = torch.cat([ids, ids[-2:-1]]), torch.cat([keys, torch.tensor([[number]])])
        before, predicts = net.write(ids, queries[0].expand(len(ids), -1))
        known = torch.ones(1, len(ids), 1, dtype=torch.bool)
        found, copied = net.attend(predicts[None, :, 0], one, known, keys.T)
        logs = net.logs(predicts[:, 0], found[0], before[:, 0], ids[:, 0], copied[0])
        made = net.logs(predicts[:, 0], found[0], before[:, 0], ids[:, 0], 0 * copied[0])
    rare_said = len(ids) - len(texts) - 1
    total = logs.exp().sum() - made[len(ids) - rare_said :].exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-4)


def test_texts_without_words_and_long_ones() -> None:
    vocabulary = Vocabulary.of(["a a b", ""], [1, 0], most=5, longest=2)
    assert vocabulary.words == ["a"]
    rows = vocabulary.rows(["", "a b c d"])
    assert rows.sizes.tolist() == [1, 2]
    assert rows.ids.tolist() == [[RARE, END, END], [2, RARE, END]]
    again = Vocabulary.from_arrays(vocabulary.arrays())
    assert (again.words, again.rare, again.longest) == (["a"], 1, 2)
