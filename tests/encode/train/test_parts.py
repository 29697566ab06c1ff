"""The parts of training, each compared with an oracle."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextquery.encode import Sessions, tuned
from nextquery.encode.static import StaticEncoder
from nextquery.encode.tokens import Tokens
from nextquery.encode.train import loop, model, objectives
from nextquery.encode.train.export import distil, table_of
from nextquery.encode.train.loop import Checkpoints, Progress, weights_of
from nextquery.encode.train.model import Split, Tokenised, lines, published, tokenise
from nextquery.encode.train.objectives import MaskedLM
from tests.encode.train.world import SMALL, World


def test_the_loss_is_that_of_the_gradient_by_hand(rng: np.random.Generator) -> None:
    left, right = rng.normal(size=(2, 9, 4))
    one, two = rng.integers(6, size=(2, 9))
    copies = tuned.copies_in(one, two)
    u, v = (torch.nn.functional.normalize(torch.from_numpy(side), dim=1) for side in (left, right))
    masked = objectives.copies_in(torch.from_numpy(one), torch.from_numpy(two))
    assert masked.numpy().tolist() == copies.tolist()
    loss = float(objectives.info_nce(u, v, masked, 0.1))
    assert loss == pytest.approx(tuned.info_nce(left, right, copies, 0.1).loss, rel=1e-5)


def test_the_loss_is_exact_even_if_products_are_rounded(rng: np.random.Generator) -> None:
    u, v = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(2, 64, 16))), dim=-1)
    copies = torch.zeros(64, 64, dtype=torch.bool)
    exact = float(objectives.info_nce(u, v, copies, 0.05))
    with torch.autocast("cpu", torch.bfloat16):
        assert (u.float() @ v.float().T).dtype == torch.bfloat16  # else the test shows nothing
        assert float(objectives.info_nce(u, v, copies, 0.05)) == exact


def test_every_step_learns(topics: World) -> None:
    """Including the last step, and a single one."""
    rows = tokenise(model.learn(topics.texts, 400), topics.texts, 64)
    read = Tokenised(lines(rows, topics.sessions, 256), torch.device("cpu"), pad=0)
    task = MaskedLM(published(SMALL, 400), read, read, SMALL)
    optimizer = torch.optim.AdamW(task.groups(), lr=0.0)
    for task.steps in (1, 3, 12):
        sizes = []
        for step in range(task.steps):
            loop._step(task, optimizer, step, 0, contextlib.nullcontext)
            sizes.append(optimizer.param_groups[0]["lr"])
        assert min(sizes) > 0
        assert max(sizes) <= SMALL.mlm_rate


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=60), tokens=st.integers(1, 200))
def test_buckets_contain_every_text_once_and_little_padding(
    lengths: list[int], tokens: int
) -> None:
    rows = [np.arange(length, dtype=np.int32) for length in lengths]
    texts = Tokenised(rows, torch.device("cpu"), pad=0)
    positions = np.arange(len(rows))[::-1].copy()
    buckets = list(texts.bucketed(positions, tokens))
    assert sorted(np.concatenate(buckets).tolist()) == list(range(len(rows)))
    for places in buckets:
        ids, mask = texts.batch(positions[places])
        assert ids.numel() <= tokens or len(places) == 1
        for padded, row in zip(ids, positions[places], strict=True):
            assert padded[: lengths[row]].tolist() == rows[row].tolist()
        assert mask.sum(dim=1).tolist() == [lengths[i] for i in positions[places]]


def test_the_newest_are_held_out_if_there_are_times() -> None:
    sessions = Sessions.of([[s, s + 1] for s in range(40)])
    timed = Split.of(sessions, timed=True, seed=0)
    assert timed.validation.arms.tolist() == [36, 37, 37, 38, 38, 39, 39, 40]
    drawn = Split.of(sessions, timed=False, seed=0)
    assert drawn.validation.size == 4
    firsts = [*drawn.training.arms[::2].tolist(), *drawn.validation.arms[::2].tolist()]
    assert sorted(firsts) == list(range(40))  # each session on one side


def test_the_vocabulary_is_the_same_every_time(topics: World) -> None:
    made = {model.learn(topics.texts, 150) for _ in range(3)}
    assert len(made) == 1
    assert Tokens(made.pop()).size == 150


def test_masked_lm_reads_every_line_once_an_epoch_and_hides_some_of_each(topics: World) -> None:
    words = model.learn(topics.texts, 400)
    rows = tokenise(words, topics.texts, 64)
    read = Tokenised(lines(rows, topics.sessions, 256), torch.device("cpu"), pad=0)
    task = MaskedLM(published(SMALL, 400), read, read, SMALL)
    first, second = (np.concatenate(task._buckets(epoch)) for epoch in (0, 1))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(len(read.lengths)))
    assert first.tolist() != second.tolist()
    _, hidden = task._sum(read, np.arange(600), np.random.default_rng(0))
    inner = int(read.lengths.sum()) - 2 * 600
    assert 0.14 < hidden / inner < 0.30  # 15%, and at least one of each short line
    torch.manual_seed(0)
    before = task.loss(5).item()
    torch.manual_seed(0)
    assert task.loss(5).item() == before  # what a step draws depends only on its number


def test_distilling_a_table_gives_the_table_back(topics: World) -> None:
    """The oracle of the solver: ridge regression solved directly."""
    tokens = Tokens(model.learn(topics.texts, 200))
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(len(topics.texts), 3)).astype(np.float32)
    start = rng.normal(size=(tokens.size, 3)).astype(np.float32)
    table = table_of(targets, tokens, topics.texts, start).table
    assert table is not None
    means = tokens.bags(topics.texts).toarray().astype(np.float64)
    means /= means.sum(axis=1, keepdims=True)
    gram = means.T @ means + np.eye(tokens.size)
    change = np.linalg.solve(gram, means.T @ (targets - means @ start))
    np.testing.assert_allclose(table.rows, start + change, atol=1e-3)


def test_a_static_teacher_is_imitated_well() -> None:
    texts = ["red cat", "blue cat", "red dog", "blue dog", "old red cat", "old dog"]
    teacher = StaticEncoder(dim=16).fit(texts)
    tokens = Tokens(model.learn(texts, 120))
    student = distil(teacher, tokens, texts)
    agree = (student.encode(texts) * teacher.encode(texts)).sum(axis=1)
    assert agree.min() > 0.95


def test_a_checkpoint_is_known_by_what_it_was_made_from(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    notes: list[str] = []
    first = Checkpoints(tmp_path, "c", made_from="a", every=0, note=notes.append)
    assert first.restore(module, optimizer) is None
    first.save(Progress(step=7), module, optimizer, weights_of(module))
    assert not notes
    second = Checkpoints(tmp_path, "c", made_from="b", every=0, note=notes.append)
    assert second.restore(module, optimizer) is None
    assert "at step 7, was made from other data, options or versions" in notes.pop()
    second.save(Progress(step=3), module, optimizer, weights_of(module))  # the first stays
    restored_module = torch.nn.Linear(2, 2)
    restored_optimizer = torch.optim.AdamW(restored_module.parameters(), lr=0.1)
    restored = first.restore(restored_module, restored_optimizer)
    assert restored is not None
    assert restored[0].step == 7
    # The next step is the same.
    for trained, adam in ((module, optimizer), (restored_module, restored_optimizer)):
        adam.zero_grad()
        trained(torch.ones(1, 2)).square().sum().backward()
        adam.step()
    assert torch.equal(module.weight, restored_module.weight)
    assert not notes


@pytest.mark.parametrize("name", ["weights-*", "manifest.json"])
def test_a_damaged_checkpoint_is_removed(tmp_path: Path, name: str) -> None:
    module = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    notes: list[str] = []
    checkpoints = Checkpoints(tmp_path, "c", made_from="a", every=0, note=notes.append)
    checkpoints.save(Progress(step=7), module, optimizer, weights_of(module))
    before = weights_of(module)
    damaged = next(checkpoints.path.glob(name))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert checkpoints.restore(module, optimizer) is None
    assert "is damaged or incomplete. It is removed, and the stage c starts" in notes.pop()
    assert {k: v.tolist() for k, v in weights_of(module).items()} == {
        k: v.tolist() for k, v in before.items()
    }
    checkpoints.save(Progress(step=1), module, optimizer, weights_of(module))
    restored = checkpoints.restore(module, optimizer)
    assert restored is not None
    assert restored[0].step == 1
    assert not notes
