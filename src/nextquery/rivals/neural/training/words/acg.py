"""ACG: a sequence-to-sequence network over words, trained to write the next query of a session.

Each query is read word by word in both directions, the session query by query. The next query is
written word by word; at each word it attends to the queries so far and to the words of each, and a
switch decides between copying a word that it attends to and one of the vocabulary. The loss is the
mean of −log P(word).

Departures from the paper: GRUs of one layer; attention has no memory of where it looked before;
what is copied and what is generated are added up instead of telling the switch which is right; a
query's likelihood scores given candidates, where the paper also generates queries with a beam.

Dehghani, Rothe, Alfonseca and Fleury, "Learning to Attend, Copy, and Generate for Session-Based
Query Suggestion", CIKM 2017.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from nextquery.encode.onnx import runner
from nextquery.encode.train.export import exported
from nextquery.rivals.neural.acg import INPUTS, OUTPUT, AcgOptions
from nextquery.rivals.neural.next_item import NETWORK
from nextquery.rivals.neural.training.batches import Shuffled, batch_of
from nextquery.rivals.neural.training.data import TrainingData
from nextquery.rivals.neural.training.task import AMONG, Measured, Task, apart
from nextquery.rivals.neural.training.words.likelihood import ItemWords, log_likelihoods
from nextquery.rivals.neural.training.words.network import AcgNetwork, Served
from nextquery.rivals.neural.words import Vocabulary
from nextquery.sessions import Ids, Sessions

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
    def learnt(self) -> Ids:
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
        made = exported(served, (*rows, *others), list(INPUTS), [OUTPUT], sizes)
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
            (theirs,) = run([OUTPUT], dict(zip(INPUTS, arrays, strict=True)))
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
