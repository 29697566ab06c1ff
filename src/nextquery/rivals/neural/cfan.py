"""CFAN: reads a session's queries and the recommendations that it accepted, as two sequences."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nextquery.checks import number, whole_number
from nextquery.rivals.base import Step
from nextquery.rivals.neural.next_item import SESSION, Loaded, NextItem
from nextquery.rivals.neural.options import MOST, SessionOptions
from nextquery.sessions import Ids

ACCEPTED = "accepted"


@dataclass(frozen=True)
class CfanOptions(SessionOptions):
    """Parameters of CFAN.

    Parameters
    ----------
    negatives : queries drawn for each pair, beside those that were shown and not accepted.
    perturbation : size ε of the change to a session's vectors that makes an adversarial example.
    adversarial : weight of the loss on adversarial examples, at least 0.
    """

    hidden: int = 64
    dropout: float = 0.2
    epochs: int = 20
    batch: int = 64
    rate: float = 2e-3
    length: int = 50
    negatives: int = 20
    perturbation: float = 0.5
    adversarial: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.negatives, "negatives", at_least=0, at_most=MOST)
        number(self.perturbation, "perturbation", low=0, high=1e6)
        number(self.adversarial, "adversarial", low=0, high=1e6)


class Cfan(NextItem):
    """CFAN: what a session accepted says more than what it typed.

    The accepted recommendations of a step are those of `Step.accepted`; none if they are unknown.

    Li, Li, Wu, Zhou and Wang, "Click Feedback-Aware Query Recommendation Using Adversarial
    Examples", WWW 2019.
    """

    method = "cfan"

    def _inputs(self, state: Loaded, history: Ids, step: Step) -> dict[str, Any]:
        taken = history[np.isin(history, np.array(list(step.accepted), np.int64))]
        return {SESSION: state.inputs[history][None], ACCEPTED: state.inputs[taken][None]}
