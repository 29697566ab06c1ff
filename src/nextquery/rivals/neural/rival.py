"""The base of rivals that are trained networks: which model, which arms, what is known."""

import os
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step
from nextquery.rivals.neural.model_folder import Model, check_unseen, opened, same_vectors
from nextquery.sessions import Floats, Ids


class NeuralRival(Rival):
    """Ranks with a model that `nextquery train` made, without torch.

    The clock holds: a model is used only at steps dated when or after it stopped learning. If
    `model` is a folder of several models, a step uses the one that knows most of what it may know.
    Only arms that somebody asked before the step are ranked, unless `Step.unseen`.

    A subclass sets `method` and writes `_loaded` and `_scores`.

    Parameters
    ----------
    pool : the pool whose arms are ranked; its vectors are those that the model was trained with.
    model : the folder of a model, or a folder of several of one method.
    """

    method: ClassVar[str]
    needs_pool: ClassVar[bool] = True

    def __init__(
        self,
        memory: SessionMemory,
        pool: ArmPool | None = None,
        *,
        model: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(memory)
        if model is None:
            raise InvalidInput(
                f"{self.method} needs a trained model: {self.method}@model=FOLDER. Train one with "
                f"nextquery train POOL --method {self.method} --out FOLDER."
            )
        self.model, self.pool = str(model), pool
        self._models = opened(self.model)
        wrong = sorted({one.method for one in self._models} - {self.method})
        if wrong:
            raise InvalidInput(
                f"{self.model} is a model of {wrong[0]}, not of {self.method}. Use "
                f"{wrong[0]}@model={self.model}."
            )
        self._states: dict[int, Any] = {}
        self._first = _first_asked(memory)

    @property
    def identity(self) -> str:
        """What else than its name its ranking depends on: the content of the models."""
        return " ".join(model.digest for model in self._models)

    @property
    def trained_seconds(self) -> float:
        """How long its models were trained, together."""
        return sum(float(model.report["stage"]["seconds"]) for model in self._models)

    def check_start(self, start: float) -> None:
        """Raise an error if every model has seen what is dated at or after `start`."""
        check_unseen(self._models[0], self.model, start)

    def get_params(self) -> dict[str, Any]:
        """Return the parameters that a variant can set."""
        return {"model": self.model}

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        if not len(step.history):
            return np.empty(0, np.int64), np.empty(0)
        number = self._number_at(step)
        if number not in self._states:
            model, pool = self._models[number], self._pool()
            arms = model.arms_of(pool)
            same_vectors(model, pool)
            self._states[number] = self._loaded(model, pool, arms)
        arms, scores = self._scores(self._states[number], step)
        known = self._may_be_ranked(arms, step)
        return arms[known], scores[known]

    def _may_be_ranked(self, arms: Ids, step: Step) -> Any:
        known = np.ones(len(arms), bool)
        if not step.unseen:
            inside = arms < len(self._first)
            known[~inside] = False
            known[inside] = self._first[arms[inside]] < step.before
        removed = self._pool().removed
        if len(removed):
            known &= ~np.isin(arms, removed)
        return known

    def _number_at(self, step: Step) -> int:
        """Return the number of the newest model that knows nothing dated at or after the step."""
        if not step.time:
            return len(self._models) - 1
        self.check_start(step.time)
        times = [model.knows_until or -np.inf for model in self._models]
        return int(np.searchsorted(times, step.time, side="right")) - 1

    def _pool(self) -> ArmPool:
        if self.pool is None:
            raise InvalidInput(
                f"{self.method} ranks the arms of a pool: nq.rival({self.method!r}, sessions, "
                "pool=pool, model=FOLDER)."
            )
        return self.pool

    @abstractmethod
    def _loaded(self, model: Model, pool: ArmPool, arms: Ids) -> Any:
        """Return what `_scores` needs of a model; `arms` are those of its queries, or -1."""

    @abstractmethod
    def _scores(self, state: Any, step: Step) -> tuple[Ids, Floats]:
        """Return arms and the logarithms of their probabilities, up to one constant."""

    def _shares(self, scores: Floats) -> Floats:
        """Return the softmax of the scores."""
        if not len(scores):
            return scores
        shares = np.exp(scores - scores.max())
        total: Floats = shares / shares.sum()
        return total


def _first_asked(memory: SessionMemory) -> Ids:
    """Return the first position of each arm by the clock.

    >>> from nextquery.sessions import Sessions
    >>> _first_asked(SessionMemory(Sessions.of([[2, 0], [0]]))).tolist()
    [1, 3, 0]
    """
    first = np.full(memory.arms, len(memory), np.int64)
    np.minimum.at(first, np.asarray(memory.sessions.arms), memory.positions)
    return first
