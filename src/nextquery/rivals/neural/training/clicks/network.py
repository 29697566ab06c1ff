"""The network of CFAN: one recurrent network over queries, one over what was accepted."""

from typing import Any

import torch
from torch import nn

from nextquery.rivals.neural.training.recurrent import Recurrent


class CfanNetwork(nn.Module):  # type: ignore[misc]
    """Reads rows of queries, and rows of what was accepted of them."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.queries, self.clicks = Recurrent(width, width), Recurrent(width, width)
        self.nothing = nn.Parameter(torch.zeros(width))  # before anything was accepted
        self.joined = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Any, accepted: Any, upto: Any) -> Any:
        """Return what it made of each session so far, (batch, length, width).

        `accepted` are the rows of what was accepted, (batch, n, width), and `upto` says of how many
        of them each query knows.
        """
        first = self.nothing.expand(len(rows), 1, -1)
        asked, _ = self.queries(self.dropout(rows))
        taken, _ = self.clicks(self.dropout(torch.cat([first, accepted], dim=1)))
        known = taken.gather(1, upto[..., None].expand(-1, -1, self.width))
        return self.joined(self.dropout(torch.cat([asked, known], dim=2)))


class Served(nn.Module):  # type: ignore[misc]
    """The network for one session, with everything that it accepted."""

    def __init__(self, network: CfanNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Any, accepted: Any) -> Any:
        """Return the vector that scores queries, (1, width)."""
        net = self.network
        asked, _ = net.queries(rows)
        taken, _ = net.clicks(torch.cat([net.nothing.expand(1, 1, -1), accepted], dim=1))
        return net.joined(torch.cat([asked[:, -1], taken[:, -1]], dim=1))
