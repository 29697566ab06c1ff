"""A task whose network makes one vector of a session, which scores items by products of rows."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from nextquery.encode.onnx import runner
from nextquery.encode.train.export import exported
from nextquery.rivals.neural.model_folder import probe
from nextquery.rivals.neural.next_item import INPUT, NETWORK, OUT, OUTPUT, SESSION
from nextquery.rivals.neural.training.batches import batch_of
from nextquery.rivals.neural.training.items import Items, TextVectors
from nextquery.rivals.neural.training.task import Measured, Scored, Task, apart, measure
from nextquery.sessions import Ids, Sessions

_SCORES = 1 << 24  # at once, in validation
_COMPARED = 100  # sessions on which the exported network is compared


class NextItemModule(nn.Module):  # type: ignore[misc]
    """The rows of items going in and coming out, and the network between them.

    Parameters
    ----------
    network : from rows (batch, length, width) to what it made of each session so far, the same
        shape; it never looks ahead.
    inputs : the rows of items that go in.
    outputs : those that score; None: the same.
    items : number of items; each has a bias on its score.
    sparse : whether the gradients of what is learnt for each item are sparse.
    """

    def __init__(
        self,
        network: Any,
        inputs: Items | TextVectors,
        outputs: Items | None,
        items: int,
        *,
        sparse: bool,
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.own_outputs = network, inputs, outputs
        self.bias = nn.Embedding(items, 1, sparse=sparse)
        nn.init.zeros_(self.bias.weight)

    @property
    def outputs(self) -> Items | TextVectors:
        """The rows that score."""
        return self.inputs if self.own_outputs is None else self.own_outputs

    def scores(self, states: Any, items: Any = None) -> Any:
        """Return the scores (n, items) of these items, or of all, for states (n, width)."""
        if items is None:
            return states @ self.outputs.every().T + self.bias.weight[:, 0]
        return states @ self.outputs(items).T + self.bias(items)[:, 0]


class NextItemTask(Task):
    """Scores every item at every query of a session that has a next one."""

    module: NextItemModule
    outputs: ClassVar[tuple[str, ...]] = (OUT,)
    """What the served network returns."""

    def measured(self, sessions: Sessions) -> Measured:
        """Return how well it ranks the next queries of these sessions, among all items."""
        self.module.eval()
        with torch.no_grad():
            return measure(self.scored(sessions))

    def scored(self, sessions: Sessions) -> Iterator[Scored]:
        """Yield scores of all items for every query of these sessions that has a next one."""
        rows = max(1, _SCORES // (len(self.data.texts) * self.options.length))
        for at in range(0, sessions.size, rows):
            which = np.arange(at, min(at + rows, sessions.size))
            batch = batch_of(sessions, which, length=self.options.length, device=self.device)
            states = self.module.network(self.module.inputs(batch.items))
            yield Scored(self.module.scores(states[batch.steps]), batch.targets)

    @property
    def learnt(self) -> Ids:
        """The items that have rows of their own: those of the training sessions."""
        return np.flatnonzero(self.data.counts)

    def networks(self) -> dict[str, bytes]:
        """Return the network that reads a session, from rows to the vector that scores."""
        network = self.module.network.eval().cpu()
        made = self.exported(network)
        network.to(self.device)
        return {NETWORK: made}

    def served(self, network: Any) -> Any:
        """Return the network as a function of the rows of one session, to all `outputs`."""
        return _Last(network)

    def exported(self, network: Any) -> bytes:
        """Return `served` as ONNX: rows (1, length, width) in."""
        example = (torch.zeros(1, 2, self.module.inputs.width),)
        sizes = {"rows": {1: torch.export.Dim("length", min=1, max=self.options.length)}}
        return exported(self.served(network), example, [SESSION], list(self.outputs), sizes)

    def difference(self, networks: dict[str, bytes]) -> float:
        """Return by how much an entry of an output differs, over some sessions."""
        run, worst = runner(networks[NETWORK]), 0.0
        sessions, served = self.data.validation, self.served(self.module.network.eval())
        for which in range(min(_COMPARED, sessions.size)):
            items = torch.from_numpy(sessions.of_number(which)[-self.options.length :])
            with torch.no_grad():
                rows = self.module.inputs(items.to(self.device))[None]
                ours = served(rows)
            theirs = run(list(self.outputs), {SESSION: rows.cpu().numpy()})
            for own, other in zip(ours, theirs, strict=True):
                worst = max(worst, apart(own.cpu().numpy(), other))
        return worst

    def arrays(self) -> dict[str, Any]:
        """Return the rows of items, their biases, and some vectors to recognise the encoder by."""
        learnt = self.learnt
        arrays = {
            **self.module.inputs.arrays(INPUT, learnt),
            "bias": self.module.bias.weight.detach().cpu().numpy()[learnt, 0],
            **probe(self.data.vectors, learnt),
        }
        if self.module.own_outputs is not None:
            arrays |= self.module.own_outputs.arrays(OUTPUT, learnt)
        return arrays


class _Last(nn.Module):  # type: ignore[misc]
    """The network as served: one session, without padding, and only its last state."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Any) -> tuple[Any]:
        return (self.network(rows)[:, -1],)
