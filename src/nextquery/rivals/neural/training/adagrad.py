"""Adagrad as GRU4Rec uses it: momentum, and only the rows of a batch move."""

from typing import Any

import torch


class Adagrad(torch.optim.Optimizer):  # type: ignore[misc]
    """Divide each step by the root of the sum of squared gradients so far.

    With g a gradient: a ← a + g², v ← momentum·v − rate·g/√(a + ε), weight ← weight + v. Of a
    sparse gradient only the rows in it take part, in v as well. (torch's own Adagrad adds ε to the
    root, and has no momentum.)

    Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization", JMLR 2011.
    """

    def __init__(self, groups: Any, *, momentum: float = 0.0, eps: float = 1e-6) -> None:
        super().__init__(groups, {"lr": 0.0, "momentum": momentum, "eps": eps})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        """Take a step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["squares"] = torch.zeros_like(weight)
                    if group["momentum"]:
                        state["speed"] = torch.zeros_like(weight)
                self._move(weight, state, group)

    def _move(self, weight: Any, state: Any, group: Any) -> None:
        gradient, rows = weight.grad, slice(None)
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            rows, gradient = gradient.indices()[0], gradient.values()
        squares = state["squares"][rows] + gradient**2
        change = -group["lr"] * gradient / (squares + group["eps"]).sqrt()
        state["squares"][rows] = squares
        if group["momentum"]:
            change = change + group["momentum"] * state["speed"][rows]
            state["speed"][rows] = change
        weight[rows] += change
