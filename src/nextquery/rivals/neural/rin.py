"""RIN: infers how a person will change their query, from how they changed it before."""

from dataclasses import dataclass

from nextquery.checks import number
from nextquery.rivals.neural.next_item import NextItem
from nextquery.rivals.neural.options import SessionOptions, SoftmaxOptions

ANCHOR = "anchor"
"""The output of its network with the vector that it predicts for the next query."""


@dataclass(frozen=True)
class RinOptions(SessionOptions, SoftmaxOptions):
    """Parameters of RIN.

    Parameters
    ----------
    inference : weight of the squared error of the inferred reformulation, at least 0.
    negatives : how many are drawn in a step; see `SoftmaxOptions`.
    """

    hidden: int = 128
    dropout: float = 0.2
    epochs: int = 20
    batch: int = 128
    rate: float = 1e-3
    inference: float = 10.0
    negatives: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.inference, "inference", low=0, high=1e6)
        self.check_negatives()


class Rin(NextItem):
    """RIN: an arm's score is its product with what is wanted and with the predicted next vector.

    Jiang and Wang, "RIN: Reformulation Inference Network for Context-Aware Query Suggestion",
    CIKM 2018.
    """

    method = "rin"
