"""Masked-LM: predict hidden tokens of half-sessions, as in the paper."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.encode.train.data import Tokenised
from nextquery.encode.train.loop import Objective
from nextquery.encode.train.options import TrainOptions
from nextquery.encode.train.vocabulary import CLS, MASK, SEP
from nextquery.sessions import Ids

_FEWEST_STEPS = 16  # per epoch, if there are enough lines: a small log needs steps too
_JITTER = 4  # random tokens added to lengths, so that batches differ between epochs
_AT_ONCE = 1 << 16


class MaskedLM(Objective):
    """Predict 15% of the tokens; of those 80% are hidden, 10% replaced at random, 10% kept.

    One step reads one bucket of lines of similar length. Which lines and tokens depends only on the
    seed and the step, so a run resumed from a checkpoint reads the same data.

    Reference: Devlin et al. (2019), section 3.1.
    """

    name = "masked-lm"
    keep_best = False  # as published: the last weights

    def __init__(
        self, module: Any, lines: Tokenised, held_out: Tokenised, options: TrainOptions
    ) -> None:
        self.module, self._lines, self._held_out, self._options = module, lines, held_out, options
        total, count = int(lines.lengths.sum()), len(lines.lengths)
        self._batches = max(-(-total // options.batch_tokens), min(_FEWEST_STEPS, count))
        self.steps = self._batches * options.epochs
        self._epoch, self._plan = -1, list[Ids]()

    def groups(self) -> list[dict[str, Any]]:
        """Return the parameters with their step size."""
        return [
            {
                "params": list(self.module.parameters()),
                "rate": self._options.mlm_rate,
                "weight_decay": 0.01,
            }
        ]

    def loss(self, step: int) -> Any:
        """Return the cross-entropy at the tokens hidden in this step's lines."""
        epoch, at = divmod(step, self._batches)
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, self._buckets(epoch)
        generator = np.random.default_rng([self._options.seed, 1, step])
        total, hidden = self._sum(self._lines, self._plan[at], generator)
        return total / hidden

    def seen(self, step: int) -> int:
        """Return the number of tokens read in a step, without padding."""
        return int(self._lines.lengths.sum() / self._batches)

    def check(self) -> dict[str, float]:
        """Return the perplexity of the held-out lines, with the same tokens hidden every time."""
        generator = np.random.default_rng([self._options.seed, 2])
        total, hidden = 0.0, 0
        places = np.arange(len(self._held_out.lengths))
        for part in self._held_out.bucketed(places, _AT_ONCE):
            loss, count = self._sum(self._held_out, places[part], generator)
            total, hidden = total + float(loss), hidden + count
        return {"perplexity": math.exp(min(total / hidden, 50.0))}

    def _buckets(self, epoch: int) -> list[Ids]:
        """Split all lines into the batches of an epoch, by similar length."""
        rng = np.random.default_rng([self._options.seed, 3, epoch])
        blurred = self._lines.lengths + rng.uniform(0, _JITTER, len(self._lines.lengths))
        order = np.argsort(blurred)
        ends = np.cumsum(self._lines.lengths[order])
        shares = np.arange(1, self._batches) * ends[-1] / self._batches
        parts = np.split(order, np.searchsorted(ends, shares))
        parts = [part if len(part) else order[:1] for part in parts]  # a line longer than a share
        return [parts[i] for i in rng.permutation(self._batches)]

    def _sum(
        self, lines: Tokenised, positions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Any, int]:
        ids, mask = lines.batch(positions)
        draws = torch.from_numpy(rng.random((2, *ids.shape), dtype=np.float32)).to(ids.device)
        words = (mask == 1) & (ids != CLS) & (ids != SEP)
        chance = torch.where(words, draws[0], 2.0)
        chosen = (chance < self._options.mask) | (chance == chance.min(dim=1, keepdim=True).values)
        chosen &= words  # the word with the lowest draw of each line is always hidden
        size = self.module.config.vocab_size
        anything = torch.from_numpy(rng.integers(MASK + 1, size, tuple(ids.shape)))
        shown = torch.where(chosen & (draws[1] < 0.8), MASK, ids)
        swapped = chosen & (draws[1] >= 0.9)
        shown = torch.where(swapped, anything.to(ids.device), shown)
        states = self.module.bert(input_ids=shown, attention_mask=mask).last_hidden_state
        guesses = self.module.cls(states[chosen])
        targets = ids[chosen]
        loss = torch.nn.functional.cross_entropy(guesses.float(), targets, reduction="sum")
        return loss, len(targets)
