"""Rivals that make one vector of a session: an arm's score is its product with that vector."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.encode.onnx import runner
from nextquery.rivals.base import Step
from nextquery.rivals.neural.model_folder import Model
from nextquery.rivals.neural.rival import NeuralRival
from nextquery.sessions import Floats, Ids

Vectors = NDArray[np.float32]
NETWORK, SESSION, OUT = "network", "items", "state"
INPUT, OUTPUT = "input", "output"


class Loaded(NamedTuple):
    """A model on a pool.

    `inputs` and `outputs` are the rows of all arms (the same array if they are tied), `biases`
    what is added to their scores, `placed` the arms that have a row, ascending.
    """

    run: Any
    inputs: Vectors
    outputs: Vectors
    biases: Floats
    placed: Ids
    length: int


class NextItem(NeuralRival):
    """Scores every arm by the product of its row with what the network makes of the session."""

    def _loaded(self, model: Model, pool: ArmPool, arms: Ids) -> Loaded:
        arrays = model.arrays
        inputs, placed = item_rows(arrays, INPUT, pool, arms)
        outputs = inputs
        if f"{OUTPUT}_table" in arrays or f"{OUTPUT}_weight" in arrays:
            outputs, placed = item_rows(arrays, OUTPUT, pool, arms)
        biases = np.zeros(len(outputs))
        there = arms >= 0
        biases[arms[there]] = arrays["bias"][there]
        length = int(model.report["options"]["length"])
        run = runner(model.networks[NETWORK])
        return Loaded(run, inputs, outputs, biases, placed, length)

    def _scores(self, state: Loaded, step: Step) -> tuple[Ids, Floats]:
        history = np.asarray(step.history, np.int64)
        places = np.searchsorted(state.placed, history)
        inside = places < len(state.placed)
        history, places = history[inside], places[inside]
        history = history[state.placed[places] == history][-state.length :]
        if not len(history):
            return np.empty(0, np.int64), np.empty(0)
        (vector,) = state.run([OUT], self._inputs(state, history, step))
        scores = (state.outputs @ vector[0]).astype(np.float64) + state.biases
        if len(state.placed) < len(scores):
            scores = scores[state.placed]
        return state.placed, scores

    def _inputs(self, state: Loaded, history: Ids, step: Step) -> dict[str, Any]:
        """Return what the network reads; `history` are the newest arms that have a row."""
        return {SESSION: state.inputs[history][None]}


class Gru4Rec(NextItem):
    """GRU4Rec: a recurrent network reads the session query by query.

    Hidasi and Karatzoglou, "Recurrent Neural Networks with Top-k Gains for Session-based
    Recommendations", CIKM 2018.
    """

    method = "gru4rec"


class SasRec(NextItem):
    """SASRec: each query of the session attends to those before it.

    Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018.
    """

    method = "sasrec"


def item_rows(arrays: Any, side: str, pool: ArmPool, arms: Ids) -> tuple[Vectors, Ids]:
    """Return the rows of all arms of a pool, and the arms that have one.

    A row is the projected text vector, if the model has a projection, plus the arm's own vector,
    if it learnt one. With neither, it is the text vector.
    """
    weight, table = arrays.get(f"{side}_weight"), arrays.get(f"{side}_table")
    there = arms >= 0
    if weight is None and table is None:
        rows = np.asarray(pool.vectors, np.float32)
        placed = np.arange(len(rows))
    elif weight is None:
        rows = np.zeros((pool.rows_in_all, table.shape[1]), np.float32)
        placed = np.sort(arms[there])
    else:
        rows = np.asarray(pool.vectors, np.float32) @ weight.T
        placed = np.arange(pool.rows_in_all)
    if table is not None:
        rows[arms[there]] += table[there]
    return rows, placed
