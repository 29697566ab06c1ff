"""Session-contrastive training: two queries of one session find each other in a batch."""

from typing import Any

import numpy as np
import torch

from nextquery.encode.directions import Scatter, discriminant
from nextquery.encode.train.loop import Objective
from nextquery.encode.train.model import Reader
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import InvalidInput
from nextquery.sessions import Sessions

_HEAD, _SHRINKAGE = 5, 0.1  # the projection has a larger step size than the layers below it
_RESIDUAL_RATE = 3e-3
_FOR_DIRECTIONS = 20_000  # sessions, which are enough to start a projection


def info_nce(left: Any, right: Any, copies: Any, temperature: float) -> Any:
    """The loss of `nextquery.encode.infonce.info_nce` in torch, for unit rows.

    >>> rows = torch.eye(2)
    >>> round(float(info_nce(rows, rows, torch.zeros(2, 2, dtype=torch.bool), 1.0)), 4)
    0.3133
    """
    with torch.autocast(left.device.type, enabled=False):  # it would round cosines to 8 bits
        scores = (left.float() @ right.float().T) / temperature
    scores = scores.masked_fill(copies, float("-inf"))
    own = torch.arange(len(left), device=scores.device)
    entropy = torch.nn.functional.cross_entropy
    return (entropy(scores, own) + entropy(scores.T, own)) / 2


def copies_in(left: Any, right: Any) -> Any:
    """Mark pairs that are not fair negatives, as in `nextquery.encode.infonce.copies_in`."""
    same = (right[None, :] == right[:, None]) | (left[None, :] == left[:, None])
    same |= right[None, :] == left[:, None]
    return same.fill_diagonal_(False)


class Contrastive(Objective):
    """InfoNCE over pairs of queries of one session, with the rest of the batch as negatives.

    The projection starts from the directions in which sessions differ (LDA), so the first step
    already improves on the model.

    Reference: van den Oord, Li and Vinyals (2018), equation 4.
    """

    name = "contrastive"
    keep_best = True

    def __init__(self, reader: Reader, sessions: Sessions, options: TrainOptions) -> None:
        self.module, self._reader, self._sessions = reader.model, reader, sessions
        self._options, self.steps = options, options.steps

    def prepare(self) -> None:
        """Add projection and residual; a checkpoint restores their trained weights."""
        hidden, dim = self.module.dim, self._options.dim
        if dim > hidden:
            raise InvalidInput(
                f"dim must be at most {hidden}, the model's own dimension; received {dim}."
            )
        sample = self._sessions.take(np.arange(min(_FOR_DIRECTIONS, self._sessions.size)))
        texts, arms = np.unique(sample.arms, return_inverse=True)
        rows = self._reader.of(texts)
        scatter = Scatter.of(rows.__getitem__, Sessions(arms.astype(np.int64), sample.offsets))
        self.module.project(discriminant(scatter, dim, _SHRINKAGE), rows[arms].mean(axis=0))
        if self._options.residual:
            self.module.with_residual()
        self.module.to(self._reader.texts.device)

    def groups(self) -> list[dict[str, Any]]:
        """Return parameter groups; the projection and the residual have their own step sizes."""
        rate, decay = self._options.rate_for(self._sessions.size), self._options.weight_decay
        body = {"params": list(self.module.backbone.parameters()), "rate": rate}
        head = {"params": list(self.module.projection.parameters()), "rate": _HEAD * rate}
        groups = [body | {"weight_decay": decay}, head | {"weight_decay": decay}]
        if self.module.residual is not None:
            words = list(self.module.residual.parameters())
            groups.append({"params": words, "rate": _RESIDUAL_RATE, "weight_decay": 0.0})
        return groups

    def loss(self, step: int) -> Any:
        """Return the loss of a new batch of pairs."""
        rng = np.random.default_rng([self._options.seed, 4, step])
        left, right = self._sessions.pairs(rng, self._options.pairs)
        rows = self._reader.learnt(np.concatenate([left, right]))
        device = rows.device
        copies = copies_in(torch.from_numpy(left).to(device), torch.from_numpy(right).to(device))
        return info_nce(rows[: len(left)], rows[len(left) :], copies, self._options.temperature)

    def seen(self, step: int) -> int:
        """Return the average number of tokens read in a step, without padding."""
        mean = float(self._reader.texts.lengths[self._sessions.arms].mean())
        return int(2 * min(self._options.pairs, self._sessions.size) * mean)
