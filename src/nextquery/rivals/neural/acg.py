"""ACG: how likely is each word of a candidate, after the words of the session?"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.checks import whole_number
from nextquery.encode.onnx import runner
from nextquery.errors import InvalidInput
from nextquery.memory import Memory, Moment
from nextquery.memory.memory import FROM_MEMORY
from nextquery.rivals.base import Step
from nextquery.rivals.neural.model_folder import Model
from nextquery.rivals.neural.next_item import NETWORK
from nextquery.rivals.neural.options import MOST, SessionOptions
from nextquery.rivals.neural.rival import NeuralRival
from nextquery.rivals.neural.words import Vocabulary
from nextquery.sessions import Floats, Ids

INPUTS = ("words", "word_keys", "word_sizes", "candidates", "candidate_keys", "candidate_sizes")
OUTPUT = "log_likelihood"
_AT_ONCE = 64  # candidates


@dataclass(frozen=True)
class AcgOptions(SessionOptions):
    """Parameters of ACG.

    Parameters
    ----------
    vocabulary : number of words that it knows, the most frequent of the training sessions; it can
        only copy others.
    words : number of words of a query that are read, at least 1.
    copy : whether it can copy words of the session.
    """

    hidden: int = 128
    dropout: float = 0.2
    epochs: int = 10
    batch: int = 32
    rate: float = 2e-3
    length: int = 10
    vocabulary: int = 10_000
    words: int = 20
    copy: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.vocabulary, "vocabulary", at_least=1, at_most=MOST)
        whole_number(self.words, "words", at_least=1, at_most=1000)
        if not isinstance(self.copy, bool):
            raise InvalidInput(f"copy must be true or false; received {self.copy!r}.")


class Loaded(NamedTuple):
    """A model on a pool, and a memory that recalls candidates."""

    run: Any
    vocabulary: Vocabulary
    pool: ArmPool
    memory: Memory
    length: int


class Acg(NeuralRival):
    """ACG: a sequence-to-sequence network with query-aware attention that can copy words.

    It ranks what a policy with a memory is offered: the selected candidates and those recalled from
    earlier sessions. Reading the words of all arms at each step would take minutes.

    score = the mean of log P(word) over the words of the candidate and its end

    Dehghani, Rothe, Alfonseca and Fleury, "Learning to Attend, Copy, and Generate for Session-Based
    Query Suggestion", CIKM 2017.
    """

    method = "acg"
    uses_selection: ClassVar[bool] = True

    def _loaded(self, model: Model, pool: ArmPool, arms: Ids) -> Loaded:
        memory = Memory()
        memory.past = self.memory
        vocabulary = Vocabulary.from_arrays(model.arrays)
        length = int(model.report["options"]["length"])
        return Loaded(runner(model.networks[NETWORK]), vocabulary, pool, memory, length)

    def _scores(self, state: Loaded, step: Step) -> tuple[Ids, Floats]:
        recalled = state.memory.recall(step.history, at=Moment(step.time, step.before))
        arms = np.concatenate([step.selected.arms, recalled.suggested()[:FROM_MEMORY]])
        arms = arms[np.sort(np.unique(arms, return_index=True)[1])]
        if not len(arms):
            return arms, np.empty(0)
        texts = state.pool.texts
        said = state.vocabulary.rows([texts[arm] for arm in step.history[-state.length :]])
        scores = []
        for at in range(0, len(arms), _AT_ONCE):
            some = state.vocabulary.rows([texts[arm] for arm in arms[at : at + _AT_ONCE].tolist()])
            inputs = dict(zip(INPUTS, (*said, *some), strict=True))
            scores.append(state.run([OUTPUT], inputs)[0].astype(np.float64))
        return arms, np.concatenate(scores)
