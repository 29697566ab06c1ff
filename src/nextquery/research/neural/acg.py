"""ACG: a sequence-to-sequence network over words, trained to write the next query of a session.

Each query is read word by word in both directions, the session query by query. The next query is
written word by word. At each word the network attends to the queries so far and to the words of
each. A switch decides between copying a word that it attends to and one of the vocabulary. The
loss is the mean of −log P(word).

Departures from the paper:

- There is one layer of GRUs, and attention has no memory of where it looked before.
- What is copied and what is generated are added up, instead of telling the switch which is right.
- A query's likelihood scores given candidates; the paper also generates queries with a beam.

Dehghani, Rothe, Alfonseca and Fleury, "Learning to Attend, Copy, and Generate for Session-Based
Query Suggestion", CIKM 2017.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from nextquery.encode.train.export import exported
from nextquery.encode.transformers import runner
from nextquery.research.neural.data import Batch, Shuffled, TrainingData, batch_of
from nextquery.research.neural.gru4rec import Recurrent
from nextquery.research.neural.registry import AcgOptions
from nextquery.research.neural.serve import (
    END,
    INPUTS,
    LIKELIHOOD_OUTPUT,
    NETWORK,
    RARE,
    Vocabulary,
    WordRows,
)
from nextquery.research.neural.task import AMONG, Measured, Task, apart
from nextquery.sessions import Ids, Sessions

_NEVER = -1e30  # a score that has no weight in a softmax
_TINY = 1e-20  # keeps the logarithm of a word that cannot be copied finite


class SessionWords(NamedTuple):
    """What was said in sessions, as attention sees it: (batch, queries, words, …).

    `states` and `keys` are those of the words, `flags` say which are real, and `queries` are the
    states after each query, (batch, queries, hidden).
    """

    states: Any
    keys: Any
    flags: Any
    queries: Any


class AcgNetwork(nn.Module):  # type: ignore[misc]
    """Reads queries word by word and sessions query by query, and predicts words.

    Parameters
    ----------
    words : number of ids of the vocabulary.
    rare : number of words that share the id RARE.
    copy : whether words of the session can be copied.
    """

    def __init__(self, words: int, rare: int, hidden: int, dropout: float, *, copy: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, hidden)
        nn.init.normal_(self.words.weight, std=hidden**-0.5)
        self.word_reader = Recurrent(hidden, hidden, both=True)
        self.query_reader = Recurrent(2 * hidden, hidden)
        self.first, self.writer = nn.Linear(hidden, hidden), Recurrent(hidden, hidden)
        self.word_attention = nn.Linear(2 * hidden, hidden, bias=False)
        self.query_attention = nn.Linear(hidden, hidden, bias=False)
        self.joined = nn.Linear(3 * hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(words))
        self.switch = nn.Linear(4 * hidden, 1) if copy else None
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("share", torch.tensor(float(rare)).log(), persistent=False)

    def read_words(self, ids: Any, sizes: Any) -> tuple[Any, Any]:
        """Return the states of the words of queries (n, words), and a vector of each query."""
        every, last = self.word_reader(self.dropout(self.words(ids)), sizes)
        return self.dropout(every), last

    def read_queries(self, vectors: Any) -> Any:
        """Return the state after every query, for vectors (batch, queries, 2·hidden)."""
        return self.dropout(self.query_reader(vectors)[0])

    def write(self, targets: Any, sessions: Any) -> tuple[Any, Any]:
        """Return the rows of the words before each target, and the states that predict the targets.

        `targets` are words (n, length), `sessions` the states of the sessions, (n, hidden).
        """
        start = torch.full_like(targets[:, :1], END)
        before = self.dropout(self.words(torch.cat([start, targets[:, :-1]], dim=1)))
        states, _ = self.writer(before, first=torch.tanh(self.first(sessions)))
        return before, self.dropout(states)

    def attend(
        self, states: Any, session_words: SessionWords, known: Any, keys: Any
    ) -> tuple[Any, Any]:
        """Attend to words within queries, and to queries.

        weight(word) = softmax over the queries · softmax over the words of its query

        Parameters
        ----------
        states : those that predict, (batch, places, hidden).
        known : which queries each place knows, (batch, places, queries).
        keys : of the word to predict at each place, (batch, places).

        Returns what was found, (batch, places, 2·hidden), and the weight of the words that have
        the key of the predicted one.
        """
        queries, words = session_words.flags.shape[1:]
        of_words = self.word_attention(session_words.states).flatten(1, 2)
        of_words = (states @ of_words.transpose(1, 2)).unflatten(2, (queries, words))
        of_words = of_words.masked_fill(~session_words.flags[:, None], _NEVER).softmax(dim=-1)
        of_queries = states @ self.query_attention(session_words.queries).transpose(1, 2)
        of_queries = of_queries.masked_fill(~known, _NEVER).softmax(dim=-1)
        weights = (of_words * of_queries[..., None]).flatten(2)
        same = keys[:, :, None] == session_words.keys.flatten(1)[:, None]
        found = weights @ session_words.states.flatten(1, 2)
        return found, (weights * (same & session_words.flags.flatten(1)[:, None])).sum(dim=-1)

    def logs(self, states: Any, found: Any, before: Any, targets: Any, copied: Any) -> Any:
        """Return log P of words, for rows (n, …) of everything that predicts them.

        P(word) = p · copied + (1 − p) · softmax(word), with a switch p
        """
        out = self.dropout(torch.tanh(self.joined(torch.cat([states, found], dim=1))))
        scores = functional.linear(out, self.words.weight, self.bias)
        made = scores.log_softmax(dim=1).gather(1, targets[:, None])[:, 0]
        made = made - self.share * (targets == RARE)
        if self.switch is None:
            return made
        switch = self.switch(torch.cat([states, found, before], dim=1))[:, 0]
        from_session = functional.logsigmoid(switch) + (copied + _TINY).log()
        return torch.logaddexp(from_session, functional.logsigmoid(-switch) + made)


class Served(nn.Module):  # type: ignore[misc]
    """Scores candidates for one session: the mean of log P over their words and their end."""

    def __init__(self, network: AcgNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, words: Any, keys: Any, sizes: Any, targets: Any, target_keys: Any, target_sizes: Any
    ) -> Any:
        """Return the scores (n,) of candidates; for the arguments see `words.WordRows`."""
        net = self.network
        states, vectors = net.read_words(words, sizes)
        queries = net.read_queries(vectors[None])
        flags = torch.arange(words.shape[1], device=words.device) < sizes[:, None]
        session_words = SessionWords(states[None], keys[None], flags[None], queries)
        count, length = targets.shape
        before, predicts = net.write(targets, queries[0, -1:].expand(count, -1))
        predicts = predicts.flatten(0, 1)
        known = torch.ones_like(target_keys.flatten()[:, None] + sizes[None], dtype=torch.bool)
        found, copied = net.attend(
            predicts[None], session_words, known[None], target_keys.flatten()[None]
        )
        logs = net.logs(predicts, found[0], before.flatten(0, 1), targets.flatten(), copied[0])
        real = torch.arange(length, device=words.device) <= target_sizes[:, None]
        return (logs.unflatten(0, (count, length)) * real).sum(dim=1) / (target_sizes + 1)


class ItemWords:
    """The words of every item."""

    def __init__(self, rows: WordRows, device: Any) -> None:
        self.all, self.device = rows, device

    def rows(self, items: Ids) -> tuple[Any, Any, Any]:
        """Return `WordRows` of some items as tensors, no wider than they need."""
        ids, keys, sizes = (each[items] for each in self.all)
        width = int(sizes.max()) + 1
        cut = (ids[:, :width].copy(), keys[:, :width].copy(), sizes)
        words, same, counts = (torch.from_numpy(row).to(self.device) for row in cut)
        return words, same, counts


def log_likelihoods(net: AcgNetwork, of_items: ItemWords, batch: Batch) -> Any:
    """Return log P of all words of a batch's targets, and of their ends, one after another.

    A session is read once for all its steps: each attends only to the queries up to its own.
    """
    sessions, queries = batch.steps.shape
    device = batch.items.device
    words, keys, sizes = of_items.rows(batch.items[batch.steps].cpu().numpy())
    words, keys = words[:, :-1], keys[:, :-1]  # without END
    states, vectors = net.read_words(words, sizes)

    def placed(rows: Any) -> Any:
        """Put rows, one for each query, where they belong in their sessions."""
        there = rows.new_zeros(sessions, queries, *rows.shape[1:])
        there[batch.steps] = rows
        return there

    known = net.read_queries(placed(vectors))
    flags = torch.arange(words.shape[1], device=device) < sizes[:, None]
    session_words = SessionWords(placed(states), placed(keys), placed(flags), known)
    targets, target_keys, ends = of_items.rows(batch.targets.cpu().numpy())
    before, predicts = net.write(targets, known[batch.steps])
    length = targets.shape[1]
    places = torch.arange(queries, device=device)
    so_far = (places[:, None] >= places).repeat_interleave(length, dim=0)
    found, copied = net.attend(
        placed(predicts).flatten(1, 2),
        session_words,
        so_far.expand(sessions, -1, -1),
        placed(target_keys).flatten(1, 2),
    )
    real = torch.arange(length, device=device) <= ends[:, None]
    found = found.unflatten(1, (queries, length))[batch.steps][real]
    copied = copied.unflatten(1, (queries, length))[batch.steps][real]
    return net.logs(predicts[real], found, before[real], targets[real], copied)


_CANDIDATES = 250  # most similar queries, to measure recall among
_MEASURED = 200  # steps at which recall is measured: each reads the words of all candidates
_COMPARED = 20  # sessions on which the exported network is compared


class AcgTask(Task):
    """Train ACG on whole sessions: after every query, write the next."""

    name = "acg"
    among = f"the {_CANDIDATES} most similar queries"
    options: AcgOptions

    def __init__(self, data: TrainingData, options: AcgOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        torch.manual_seed(seed)
        self.vocabulary = Vocabulary.of(
            data.texts, data.counts, most=options.vocabulary, longest=options.words
        )
        self.words = ItemWords(self.vocabulary.rows(data.texts), device)
        self.module = AcgNetwork(
            self.vocabulary.size,
            self.vocabulary.rare,
            options.hidden,
            options.dropout,
            copy=options.copy,
        ).to(device)
        self._read = Shuffled(data.training.size, options.batch, seed)
        self.steps = options.epochs * self._read.per_epoch
        self._entropy = float("inf")

    def groups(self) -> list[dict[str, Any]]:
        """Return all weights, without weight decay."""
        params = list(self.module.parameters())
        return [{"params": params, "rate": self.options.rate, "weight_decay": 0.0}]

    def seen(self, step: int) -> int:
        """Return the average number of words that a step writes."""
        return int(self.words.all.sizes[self.data.training.arms].sum() / self._read.per_epoch)

    def loss(self, step: int) -> Any:
        """Return the mean −log P of the words of the next queries of the step's sessions."""
        return -self._logs(self.data.training, self._read.of_step(step)).mean()

    def check(self) -> dict[str, float]:
        """Return the perplexity of the words of the next queries of the validation sessions."""
        sessions, total, count = self.data.validation, 0.0, 0
        for at in range(0, sessions.size, self.options.batch):
            which = np.arange(at, min(at + self.options.batch, sessions.size))
            logs = self._logs(sessions, which)
            total, count = total + float(-logs.sum()), count + len(logs)
        self._entropy = total / count
        return {"perplexity": math.exp(min(self._entropy, 50.0))}

    def floor(self) -> float:
        """Return the mean −log P of a word, which the loop minimises."""
        return round(self._entropy, 6)

    def measured(self, sessions: Sessions) -> Measured:
        """Return how well it ranks the next queries among the most similar ones.

        A next query that is not among them is not found.
        """
        self.module.eval()
        served, ranks = Served(self.module), []
        with torch.no_grad():
            for history, target in self._steps(sessions):
                similar = self.data.vectors @ self.data.vectors[history[-1]]
                similar[history[-1]] = -np.inf
                among = np.argsort(-similar, kind="stable")[:_CANDIDATES]
                here = np.flatnonzero(among == target)
                if not len(here):
                    ranks.append(len(self.data.texts) + AMONG)
                    continue
                scores = served(*self.words.rows(history), *self.words.rows(among))
                ranks.append(int((~(scores < scores[here[0]])).sum()))
            perplexity = self.check()["perplexity"]
        inside = np.array(ranks) <= AMONG
        return Measured(
            float(inside.mean()), float((inside / np.array(ranks)).mean()), perplexity, len(ranks)
        )

    @property
    def learned_items(self) -> Ids:
        """No item: it learns of words."""
        return np.empty(0, np.int64)

    def networks(self) -> dict[str, bytes]:
        """Return the network that scores candidates for a session."""
        rows, others = (
            [torch.from_numpy(each) for each in self.vocabulary.rows(texts)]
            for texts in (["a b", "c d"], ["a b c", "d e f", "g"])
        )
        wide = {0: torch.export.Dim("queries", min=1), 1: torch.export.Dim("words", min=2)}
        many = {0: torch.export.Dim("candidates", min=1), 1: torch.export.Dim("length", min=2)}
        shapes = (wide, wide, {0: wide[0]}, many, many, {0: many[0]})
        names = ("words", "keys", "sizes", "targets", "target_keys", "target_sizes")
        sizes = dict(zip(names, shapes, strict=True))
        served = Served(self.module.eval().cpu())
        made = exported(served, (*rows, *others), list(INPUTS), [LIKELIHOOD_OUTPUT], sizes)
        self.module.to(self.device)
        return {NETWORK: made}

    def to_cpu(self) -> None:
        """Move to the CPU, with the words of the queries."""
        super().to_cpu()
        self.words.device = self.device

    def difference(self, networks: dict[str, bytes]) -> float:
        """Return by how much the score of a candidate differs, over some sessions."""
        run, served, worst = runner(networks[NETWORK]), Served(self.module.eval()), 0.0
        for number, (history, target) in enumerate(self._steps(self.data.validation)):
            if number == _COMPARED:
                break
            among = np.append(np.arange(min(_COMPARED, len(self.data.texts))), target)
            rows = (*self.words.rows(history), *self.words.rows(among))
            with torch.no_grad():
                ours = served(*rows).cpu().numpy()
            arrays = [row.cpu().numpy() for row in rows]
            (theirs,) = run([LIKELIHOOD_OUTPUT], dict(zip(INPUTS, arrays, strict=True)))
            worst = max(worst, apart(ours, theirs))
        return worst

    def arrays(self) -> dict[str, Any]:
        """Return the vocabulary."""
        return self.vocabulary.arrays()

    def _logs(self, sessions: Sessions, which: Ids) -> Any:
        batch = batch_of(sessions, which, length=self.options.length, device=self.device)
        return log_likelihoods(self.module, self.words, batch)

    def _steps(self, sessions: Sessions) -> Iterator[tuple[Ids, int]]:
        """Yield the first steps of these sessions: the queries so far, and the next."""
        done = 0
        for session in range(sessions.size):
            row = sessions.of_number(session)
            for end in range(1, len(row)):
                if done == _MEASURED:
                    return
                done += 1
                yield row[max(0, end - self.options.length) : end], int(row[end])
