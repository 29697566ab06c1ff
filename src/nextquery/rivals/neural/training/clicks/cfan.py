"""CFAN: two recurrent networks, over a session's queries and over what it accepted of them.

With z what they make of the session, a query with row v scores z·v + its bias. The loss is
pairwise: the mean of −log σ(s(next) − s(other)) over the recommendations that were shown and not
accepted, and over drawn queries. The vectors x of a session are then moved by ε·g/|g|, with g the
gradient of the loss by x (the fast gradient method), and the loss of these adversarial examples is
added.

Departures from the paper: rows are projections of our text vectors; one layer of GRUs each, without
attention; the next query is what was asked next, accepted or typed, and the negatives are those of
our own log.

Li, Li, Wu, Zhou and Wang, "Click Feedback-Aware Query Recommendation Using Adversarial Examples",
WWW 2019.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from nextquery.arms import ArmPool
from nextquery.encode.onnx import runner
from nextquery.encode.train.export import exported
from nextquery.encode.train.loop import Note
from nextquery.rivals.neural.cfan import ACCEPTED, CfanOptions
from nextquery.rivals.neural.next_item import NETWORK, OUT, SESSION
from nextquery.rivals.neural.training.batches import Shuffled
from nextquery.rivals.neural.training.clicks.batches import ClickBatch, click_batch
from nextquery.rivals.neural.training.clicks.data import clicked
from nextquery.rivals.neural.training.clicks.network import CfanNetwork, Served
from nextquery.rivals.neural.training.data import Slates, TrainingData
from nextquery.rivals.neural.training.items import Items
from nextquery.rivals.neural.training.next_item import NextItemModule, NextItemTask
from nextquery.rivals.neural.training.task import Scored, apart
from nextquery.sessions import Ids, Sessions

_NONE = np.empty((1, 0), np.int64)  # no drawn items
_AT_ONCE = 256  # validation sessions
_COMPARED = 100  # sessions on which the exported network is compared


class CfanTask(NextItemTask):
    """Train CFAN on sessions of the service's own log."""

    name = "cfan"
    options: CfanOptions

    @classmethod
    def data_of(
        cls,
        pool: ArmPool,
        *,
        until: float | None,
        hold_out: int,
        seed: int,
        clicks: str | os.PathLike[str] | None,
        note: Note,
    ) -> TrainingData:
        """Return what an export of the service's log says of the pool's arms."""
        assert clicks is not None  # `train` comes before
        return clicked(pool, clicks, until=until, hold_out=hold_out, note=note)

    def __init__(self, data: TrainingData, options: CfanOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        torch.manual_seed(seed)
        inputs = Items(data, options.hidden, "text", sparse=False)
        network = CfanNetwork(options.hidden, options.dropout)
        module = NextItemModule(network, inputs, None, len(data.texts), sparse=False)
        self.module = module.to(device)
        self._read = Shuffled(data.training.size, options.batch, seed)
        self.steps = options.epochs * self._read.per_epoch

    def groups(self) -> list[dict[str, Any]]:
        """Return all weights, without weight decay."""
        params = list(self.module.parameters())
        return [{"params": params, "rate": self.options.rate, "weight_decay": 0.0}]

    def seen(self, step: int) -> int:
        """Return the average number of queries read in a step."""
        return int(len(self.data.training.arms) / self._read.per_epoch)

    def loss(self, step: int) -> Any:
        """Return the pairwise loss, and that of the adversarial examples with its weight."""
        rng = np.random.default_rng([self.seed, 7, step])
        drawn = rng.integers(len(self.data.texts), size=(1, self.options.negatives))
        slates = self.data.slates
        made = self._batch(self.data.training, slates, self._read.of_step(step), drawn)
        rows, accepted = self.module.inputs(made.batch.items), self.module.inputs(made.accepted)
        loss = self.pairwise(rows, accepted, made)
        if not self.options.adversarial:
            return loss
        gradients = torch.autograd.grad(loss, (rows, accepted), retain_graph=True)
        moved, taken = self.perturbed((rows, accepted), gradients)
        return loss + self.options.adversarial * self.pairwise(moved, taken, made)

    def perturbed(self, rows: Any, gradients: Any) -> list[Any]:
        """Return the rows of each session, moved together by ε in the direction of the gradient."""
        norm = sum((each**2).sum(dim=(1, 2)) for each in gradients).sqrt().clamp_min(1e-12)
        size = (self.options.perturbation / norm)[:, None, None]
        return [row + (size * each).detach() for row, each in zip(rows, gradients, strict=True)]

    def pairwise(self, rows: Any, accepted: Any, made: ClickBatch) -> Any:
        """Return the mean −log σ(s(next) − s(other)) of a batch, each step counting the same."""
        module, batch = self.module, made.batch
        states = module.network(rows, accepted, made.upto)[batch.steps]

        def scores(items: Any) -> Any:
            products = torch.einsum("nw,nkw->nk", states, module.outputs(items))
            return products + module.bias(items)[..., 0]

        behind = functional.softplus(scores(made.shown) - scores(batch.targets[:, None]))
        return ((behind * made.real).sum(dim=1) / made.real.sum(dim=1).clamp_min(1)).mean()

    def scored(self, sessions: Sessions) -> Iterator[Scored]:
        """Yield scores of all items for every query of the validation sessions."""
        for at in range(0, sessions.size, _AT_ONCE):
            which = np.arange(at, min(at + _AT_ONCE, sessions.size))
            made = self._batch(sessions, self.data.validation_slates, which, _NONE)
            rows = (self.module.inputs(made.batch.items), self.module.inputs(made.accepted))
            states = self.module.network(*rows, made.upto)[made.batch.steps]
            yield Scored(self.module.scores(states), made.batch.targets)

    def exported(self, network: Any) -> bytes:
        """Return the network as ONNX, with the accepted recommendations as a second input."""
        width = self.module.inputs.width
        example = (torch.zeros(1, 3, width), torch.zeros(1, 2, width))
        most = self.options.length
        lengths = (torch.export.Dim("length", min=1), torch.export.Dim("taken", min=0, max=most))
        sizes = {"rows": {1: lengths[0]}, "accepted": {1: lengths[1]}}
        return exported(Served(network), example, [SESSION, ACCEPTED], [OUT], sizes)

    def difference(self, networks: dict[str, bytes]) -> float:
        """Return by how much an entry of a session's vector differs, over some sessions."""
        run, served, worst = runner(networks[NETWORK]), Served(self.module.network.eval()), 0.0
        sessions, slates = self.data.validation, self.data.validation_slates
        assert slates is not None
        for which in range(min(_COMPARED, sessions.size)):
            items = sessions.of_number(which)[-self.options.length :]
            end = int(sessions.offsets[which + 1])
            taken = items[slates.accepted[end - len(items) : end]]
            with torch.no_grad():
                rows = [
                    self.module.inputs(torch.from_numpy(each).to(self.device))[None]
                    for each in (items, taken)
                ]
                ours = served(*rows).cpu().numpy()
            arrays = [row.cpu().numpy() for row in rows]
            (theirs,) = run([OUT], dict(zip((SESSION, ACCEPTED), arrays, strict=True)))
            worst = max(worst, apart(ours, theirs))
        return worst

    def _batch(
        self, sessions: Sessions, slates: Slates | None, which: Ids, drawn: Ids
    ) -> ClickBatch:
        assert slates is not None  # `data_of` has them
        length = self.options.length
        return click_batch(sessions, slates, which, drawn, length=length, device=self.device)
