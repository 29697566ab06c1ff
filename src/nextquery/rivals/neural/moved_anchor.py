"""Max-utility selection around the vector that RIN predicts for the next query."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Vectors
from nextquery.encode.onnx import runner
from nextquery.errors import InvalidInput
from nextquery.policies.registry import joined, selector_named, split
from nextquery.rivals.neural.model_folder import Model, check_unseen, same_vectors
from nextquery.rivals.neural.next_item import NETWORK, SESSION
from nextquery.rivals.neural.rin import ANCHOR
from nextquery.selection import MaxUtility, Selector

_METHOD, _PARAMETER = "rin", "anchor"


class MovedAnchor(MaxUtility):
    """Select the best set for where the session is going, not for where it is.

    The anchor v_t, the vector of the current query, is replaced by v_t + Δ̂: RIN infers the
    reformulation Δ̂ from the session's queries. Everything else is max-utility selection. The
    candidates' similarities stay those with the current query.

    Parameters
    ----------
    model : the folder of a model of RIN, trained with the vectors of the pool.
    k, epsilon, utility, reading, optimizer, partitions, shortlist, seed : as in `MaxUtility`.

    >>> MovedAnchor("MODEL", k=50)
    Traceback (most recent call last):
    nextquery.errors.NotAFolder: MODEL is not a nextquery rival model...
    """

    moves = True

    def __init__(
        self,
        model: str | os.PathLike[str],
        k: int = 250,
        epsilon: float = 0.5,
        utility: str = "log-probability",
        reading: str = "example",
        *,
        optimizer: str = "auto",
        partitions: int | str = 8,
        shortlist: int | None = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(
            k,
            epsilon,
            utility,
            reading,
            optimizer=optimizer,
            partitions=partitions,
            shortlist=shortlist,
            seed=seed,
        )
        self.model = str(model)
        self._model = Model.open(model)
        if self._model.method != _METHOD:
            raise InvalidInput(
                f"{self.model} is a model of {self._model.method}, and only {_METHOD} predicts an "
                f"anchor. Train one: nextquery train POOL --method {_METHOD} --out FOLDER."
            )
        self._length = int(self._model.report["options"]["length"])
        self._run = runner(self._model.networks[NETWORK])
        self._checked: ArmPool | None = None

    @property
    def identity(self) -> str:
        """The content of the model."""
        return self._model.digest

    def check_start(self, start: float) -> None:
        """Raise an error if the model has seen what is dated at or after `start`."""
        check_unseen(self._model, self.model, start)

    def anchors(self, pool: ArmPool, vectors: Vectors, histories: Sequence[Sequence[int]]) -> Any:
        """Return the vectors that RIN predicts for the next queries, one for each session."""
        if pool is not self._checked:
            same_vectors(self._model, pool)
            self._checked = pool
        moved = np.empty_like(vectors, np.float32)
        for number, (vector, history) in enumerate(zip(vectors, histories, strict=True)):
            arms = [arm for arm in history if 0 <= arm < pool.rows_in_all]
            before = pool.rows(arms[max(0, len(arms) - self._length + 1) :])
            rows = np.concatenate([before, vector[None]]).astype(np.float32)
            (anchor,) = self._run([ANCHOR], {SESSION: rows[None]})
            moved[number] = anchor[0]
        return moved


def selection_named(
    name: str, *, k: int = 250, epsilon: float = 0.5, reading: str = "example"
) -> Selector:
    """Create a selector by name, like `selector_named`; ``max-utility`` may have an anchor.

    >>> selection_named("max-utility", k=5).k
    5
    >>> selection_named("max-utility@anchor=FOLDER", k=5)
    Traceback (most recent call last):
    nextquery.errors.NotAFolder: FOLDER is not a nextquery rival model...
    """
    plain, given = split(name)
    model = given.pop(_PARAMETER, None) if plain == "max-utility" else None
    selector = selector_named(joined(plain, given), k=k, epsilon=epsilon, reading=reading)
    return selector if model is None else MovedAnchor(str(model), **selector.get_params())
