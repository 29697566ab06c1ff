"""Next-item tasks that read whole sessions: a softmax over all items, or over drawn ones."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from nextquery.rivals.neural.options import SoftmaxOptions
from nextquery.rivals.neural.training.batches import Batch, Shuffled, batch_of
from nextquery.rivals.neural.training.data import TrainingData
from nextquery.rivals.neural.training.next_item import NextItemTask


class SoftmaxTask(NextItemTask):
    """At every query of a session, predict the next. A subclass sets `module`."""

    def __init__(self, data: TrainingData, options: SoftmaxOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        torch.manual_seed(seed)
        self._read = Shuffled(data.training.size, options.batch, seed)
        self.steps = options.epochs * self._read.per_epoch
        self._drawn = min(options.drawn(len(data.texts)), len(data.texts))

    def groups(self) -> list[dict[str, Any]]:
        """Return all weights, without weight decay."""
        params = list(self.module.parameters())
        return [{"params": params, "rate": self.options.rate, "weight_decay": 0.0}]

    def seen(self, step: int) -> int:
        """Return the average number of queries read in a step."""
        return int(len(self.data.training.arms) / self._read.per_epoch)

    def loss(self, step: int) -> Any:
        """Return the loss of the next queries of the step's sessions."""
        batch = self.batch(step)
        states = self.module.network(self.module.inputs(batch.items))[batch.steps]
        return self.entropy(states, batch.targets, step)

    def batch(self, step: int) -> Batch:
        """Return the sessions that a step reads."""
        which = self._read.of_step(step)
        return batch_of(self.data.training, which, length=self.options.length, device=self.device)

    def entropy(self, states: Any, targets: Any, step: int) -> Any:
        """Return the mean −log softmax of the targets for states (n, width)."""
        if not self._drawn:
            return functional.cross_entropy(self.module.scores(states), targets)
        rng = np.random.default_rng([self.seed, 7, step])
        among = torch.from_numpy(rng.integers(len(self.data.texts), size=self._drawn))
        return self.loss_among(states, targets, among.to(self.device))

    def loss_among(self, states: Any, targets: Any, among: Any) -> Any:
        """Return the loss over each target and the items `among`, without the target's copies."""
        own = (states * self.module.outputs(targets)).sum(dim=1) + self.module.bias(targets)[:, 0]
        others = self.module.scores(states, among)
        others = others.masked_fill(among[None, :] == targets[:, None], float("-inf"))
        scores = torch.cat([own[:, None], others], dim=1)
        return functional.cross_entropy(scores, torch.zeros_like(targets))
