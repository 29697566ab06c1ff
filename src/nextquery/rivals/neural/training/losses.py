"""The two losses of GRU4Rec, over one target and many negatives in every row."""

from typing import Any

import torch
from torch.nn import functional

_TINY = 1e-24


def cross_entropy(scores: Any) -> Any:
    """Return the sum of −log softmax of the targets; row i has its target in column i.

    >>> round(float(cross_entropy(torch.zeros(2, 4))), 4)  # two rows, each 1 of 4
    2.7726
    """
    return functional.cross_entropy(scores, _own(scores), reduction="sum")


def bpr_max(scores: Any, *, elu: float, regularisation: float) -> Any:
    """Return the sum of BPR-max over the rows; row i has its target in column i.

    With w the softmax of the negatives' scores s_j: −log Σ w_j·σ(s_target − s_j) +
    `regularisation`·Σ w_j·s_j². With `elu` above 0, scores first pass through an ELU.

    >>> scores = torch.tensor([[1.0, 0.0]])
    >>> round(float(bpr_max(scores, elu=0, regularisation=1)), 4)  # -log sigmoid(1)
    0.3133

    Hidasi and Karatzoglou (2018), section 3.3.2.
    """
    if elu > 0:
        scores = functional.elu(scores, elu)
    rows = _own(scores)
    target = scores[rows, rows][:, None]
    negatives = torch.ones_like(scores, dtype=torch.bool)
    negatives[rows, rows] = False
    weights = scores.masked_fill(~negatives, float("-inf")).softmax(dim=1)
    better = (torch.sigmoid(target - scores) * weights).sum(dim=1)
    small = (scores**2 * weights).sum(dim=1)
    return (regularisation * small - torch.log(better + _TINY)).sum()


def _own(scores: Any) -> Any:
    return torch.arange(len(scores), device=scores.device)
