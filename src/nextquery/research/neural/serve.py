"""Trained neural rivals as recommenders: the model folder and the scores.

A model folder holds networks, arrays, the queries that the model was trained on, and the time
until which it knows the log.

- *GRU4Rec* and *SASRec* make one vector of a session; an arm's score is its product with it.
- *RIN* infers how a person will change their query, from how they changed it before.
- *ACG* scores a candidate by the likelihood of each of its words, after the words of the session.
- *CFAN* reads a session's queries and the recommendations that it accepted, as two sequences.
- `MovedAnchor` is max-utility selection around the vector that RIN predicts for the next query.
"""

import hashlib
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.arms.kernels import Vectors
from nextquery.arms.texts import TextColumn
from nextquery.encode.tokens import words_of
from nextquery.encode.transformers import runner
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.memory import Memory, Moment, SessionMemory
from nextquery.memory.memory import FROM_MEMORY
from nextquery.policies.registry import joined, selector_named, split
from nextquery.research.rivals.rival import Rival, Step
from nextquery.selection import MaxUtility, Selector
from nextquery.sessions import Floats, Ids

KIND, VERSION = "nextquery rival model", 1
_ARRAYS, _TEXTS, _NETWORK = "arrays.npz", "queries", ".onnx"
_SAME = 1e-6  # by which a stored vector may differ from the pool's


@dataclass(frozen=True)
class Model:
    """A trained model, without torch.

    Parameters
    ----------
    method : the name of its method.
    knows_until : nothing that it learnt from is dated at or after this Unix time; None if its log
        has no times.
    networks : ONNX files by name.
    arrays : weights that are used outside a network, by name.
    texts : the queries that it learnt something of its own about, in the order of its arrays.
    report : how it was trained, as JSON.
    """

    method: str
    knows_until: float | None
    networks: Mapping[str, bytes]
    arrays: Mapping[str, np.ndarray[Any, Any]]
    texts: Sequence[str]
    report: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""  #: of its files; empty: not saved yet

    def parts(self) -> dict[str, folders.Part]:
        """Return the parts to save in a folder."""
        networks = {f"{name}{_NETWORK}": data for name, data in self.networks.items()}
        texts = TextColumn.of(self.texts).parts(_TEXTS)
        return {**networks, _ARRAYS: dict(self.arrays), **texts}

    def meta(self) -> dict[str, Any]:
        """Return the manifest entry."""
        known = {"method": self.method, "knows_until": self.knows_until}
        return {**known, "report": dict(self.report)}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Model":
        """Open a model's folder; raises if it is none or damaged."""
        folder = folders.read(path, kind=KIND, version=VERSION)
        folder.verify()
        networks = {
            name.removesuffix(_NETWORK): folder.file(name).read_bytes()
            for name in folder.files
            if name.endswith(_NETWORK)
        }
        texts = TextColumn.open(folder, _TEXTS)
        hashes = sorted(str(entry["sha256"]) for entry in folder.files.values())
        digest = hashlib.sha256(" ".join(hashes).encode()).hexdigest()
        arrays = folder.arrays(_ARRAYS)
        return cls(networks=networks, arrays=arrays, texts=texts, digest=digest, **folder.meta)

    @property
    def day(self) -> str:
        """The day until which it knows, in words."""
        return "an unknown date" if self.knows_until is None else day_of(self.knows_until)

    def arms_of(self, pool: ArmPool, places: Ids | None = None) -> Ids:
        """Return the arms of all its queries in a pool, or of those at `places`; -1: not there."""
        some = self.texts if places is None else [self.texts[place] for place in places.tolist()]
        found = [pool.index_of(text) for text in some]
        return np.array([-1 if arm is None else arm for arm in found], np.int64)


def opened(path: str | os.PathLike[str]) -> list[Model]:
    """Open a model, or all models in a folder of several, by the time until which they know.

    Several models of one method, trained until different dates, stand for one that is trained
    again from time to time.
    """
    root = Path(path)
    if (root / folders.MANIFEST).exists() or not root.is_dir():
        return [Model.open(root)]
    inside = sorted(file.parent for file in root.glob(f"[!.]*/{folders.MANIFEST}"))
    if not inside:
        raise NotAFolder(
            f"{root} has no trained model. Make one: nextquery train POOL --method gru4rec --out "
            "MODEL."
        )
    models = [Model.open(one) for one in inside]
    methods = sorted({model.method for model in models})
    if len(methods) > 1:
        raise InvalidInput(
            f"{root} has models of several methods: {', '.join(methods)}. Keep each method's "
            "models in a folder of their own."
        )
    return sorted(models, key=lambda model: model.knows_until or 0.0)


def check_unseen(model: Model, path: str, start: float) -> None:
    """Raise an error if a model has seen what is dated at or after `start`."""
    if model.knows_until is None or model.knows_until <= start:
        return
    day = day_of(start)
    raise InvalidInput(
        f"{path} has seen what it would be tested on: it knows the log until {model.day}, and the "
        f"first step that is played is of {day}. Train it on what is dated before: nextquery train "
        f"POOL --method {model.method} --until {day} --out FOLDER."
    )


def probe(vectors: Any, arms: Ids) -> dict[str, np.ndarray[Any, Any]]:
    """Return the vectors of a few queries, to recognise the encoder by (`same_vectors`)."""
    places = np.unique(np.linspace(0, max(0, len(arms) - 1), min(64, len(arms))).astype(np.int64))
    return {"probe_places": places, "probe": np.asarray(vectors[arms[places]], np.float32)}


def same_vectors(model: Model, pool: ArmPool) -> None:
    """Raise unless the pool's vectors are those that the model was trained with, if it uses any."""
    if "probe" not in model.arrays:
        return
    places, before = model.arrays["probe_places"], model.arrays["probe"]
    if before.shape[1] != pool.dim:
        raise _other_vectors(f"{before.shape[1]} dimensions, those of the pool {pool.dim}")
    arms = model.arms_of(pool, places)
    there = arms >= 0
    now = np.asarray(pool.vectors[arms[there]])
    if len(now) and np.abs(now - before[there]).max() > _SAME:
        raise _other_vectors("other values")


def _other_vectors(how: str) -> InvalidInput:
    return InvalidInput(
        f"this model was trained with other vectors: they have {how}. Use the pool that it was "
        "trained on, one made with the same encoder, or train it again: nextquery train POOL."
    )


def day_of(time: float) -> str:
    """Return the day of a Unix time, in UTC."""
    return datetime.fromtimestamp(time, UTC).date().isoformat()


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


NETWORK, SESSION, OUT = "network", "items", "state"
INPUT, OUTPUT = "input", "output"


class LoadedNextItem(NamedTuple):
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

    def _loaded(self, model: Model, pool: ArmPool, arms: Ids) -> LoadedNextItem:
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
        return LoadedNextItem(run, inputs, outputs, biases, placed, length)

    def _scores(self, state: LoadedNextItem, step: Step) -> tuple[Ids, Floats]:
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

    def _inputs(self, state: LoadedNextItem, history: Ids, step: Step) -> dict[str, Any]:
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


ACCEPTED = "accepted"


class Cfan(NextItem):
    """CFAN: what a session accepted says more than what it typed.

    The accepted recommendations of a step are those of `Step.accepted`; none if they are unknown.

    Li, Li, Wu, Zhou and Wang, "Click Feedback-Aware Query Recommendation Using Adversarial
    Examples", WWW 2019.
    """

    method = "cfan"

    def _inputs(self, state: LoadedNextItem, history: Ids, step: Step) -> dict[str, Any]:
        taken = history[np.isin(history, np.array(list(step.accepted), np.int64))]
        return {SESSION: state.inputs[history][None], ACCEPTED: state.inputs[taken][None]}


ANCHOR = "anchor"
"""The output of its network with the vector that it predicts for the next query."""


class Rin(NextItem):
    """RIN: an arm's score is its product with what is wanted and with the predicted next vector.

    Jiang and Wang, "RIN: Reformulation Inference Network for Context-Aware Query Suggestion",
    CIKM 2018.
    """

    method = "rin"


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
        for row, (vector, history) in enumerate(zip(vectors, histories, strict=True)):
            arms = [arm for arm in history if 0 <= arm < pool.rows_in_all]
            before = pool.rows(arms[max(0, len(arms) - self._length + 1) :])
            rows = np.concatenate([before, vector[None]]).astype(np.float32)
            (anchor,) = self._run([ANCHOR], {SESSION: rows[None]})
            moved[row] = anchor[0]
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


END, RARE, FIRST = 0, 1, 2
"""The end of a query (which also fills up rows), a word that is not known, the first known word."""


class WordRows(NamedTuple):
    """Queries as rows of words, with END after the last one, filled up to the longest.

    `ids` are the words as the model knows them. Two words are the same if their `keys` are, also if
    the model knows neither. `sizes` are the numbers of words without END, at least 1.
    """

    ids: Ids
    keys: Ids
    sizes: Ids


class Vocabulary:
    """The words that a model knows, by frequency; every other word is RARE to it.

    Parameters
    ----------
    words : the known words.
    rare : how many different words it met beside them, at least 1: what is likely for RARE is
        shared among so many.
    longest : number of words of a query that are read, at least 1.

    >>> vocabulary = Vocabulary(["deep", "learning"], rare=9, longest=3)
    >>> rows = vocabulary.rows(["deep learning", "deep diving diving diving"])
    >>> rows.ids.tolist(), rows.sizes.tolist()
    ([[2, 3, 0, 0], [2, 1, 1, 0]], [2, 3])
    """

    def __init__(self, words: Sequence[str], *, rare: int, longest: int) -> None:
        self.words, self.rare, self.longest = list(words), rare, longest
        self._ids = {word: place for place, word in enumerate(words, start=FIRST)}
        self._keys: dict[str, int] = {}  # 0 is that of END

    @classmethod
    def of(cls, texts: Iterable[str], counts: Iterable[int], *, most: int, longest: int) -> Self:
        """Return the `most` frequent words of these texts, each asked so often.

        >>> Vocabulary.of(["b a", "a"], [5, 1], most=1, longest=9).words
        ['a']
        """
        found: Counter[str] = Counter()
        for text, count in zip(texts, counts, strict=True):
            for word in _read(text, longest):
                found[word] += int(count)
        ordered = sorted((word for word in found if found[word]), key=lambda w: (-found[w], w))
        return cls(ordered[:most], rare=max(1, len(ordered) - most), longest=longest)

    @property
    def size(self) -> int:
        """The number of ids."""
        return FIRST + len(self.words)

    def rows(self, texts: Sequence[str]) -> WordRows:
        """Return texts as rows of words."""
        split = [_read(text, self.longest) for text in texts]
        sizes = np.array([len(words) for words in split], np.int64)
        ids = np.full((len(split), int(sizes.max(initial=0)) + 1), END, np.int64)
        keys = np.zeros_like(ids)
        for row, words in enumerate(split):
            ids[row, : len(words)] = [self._ids.get(word, RARE) for word in words]
            keys[row, : len(words)] = [
                self._keys.setdefault(word, len(self._keys) + 1) for word in words
            ]
        return WordRows(ids, keys, sizes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays of a model's folder."""
        text = "\n".join(self.words).encode()  # no word has a space
        numbers = np.array([self.rare, self.longest], np.int64)
        return {"words": np.frombuffer(text, np.uint8), "word_numbers": numbers}

    @classmethod
    def from_arrays(cls, arrays: Any) -> Self:
        """The inverse of `arrays`."""
        words = arrays["words"].tobytes().decode().split("\n")
        rare, longest = arrays["word_numbers"].tolist()
        return cls([word for word in words if word], rare=rare, longest=longest)


def _read(text: str, longest: int) -> list[str]:
    """Return the words of a query; a query without any is a word of its own."""
    return (words_of(text) or [" "])[:longest]


INPUTS = ("words", "word_keys", "word_sizes", "candidates", "candidate_keys", "candidate_sizes")
LIKELIHOOD_OUTPUT = "log_likelihood"
_AT_ONCE = 64  # candidates


class LoadedACG(NamedTuple):
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

    def _loaded(self, model: Model, pool: ArmPool, arms: Ids) -> LoadedACG:
        memory = Memory()
        memory.past = self.memory
        vocabulary = Vocabulary.from_arrays(model.arrays)
        length = int(model.report["options"]["length"])
        return LoadedACG(runner(model.networks[NETWORK]), vocabulary, pool, memory, length)

    def _scores(self, state: LoadedACG, step: Step) -> tuple[Ids, Floats]:
        recalled = state.memory.recall(step.history, at=Moment(step.time, step.before))
        arms = np.concatenate([step.selected.arms, recalled.suggested()[:FROM_MEMORY]])
        arms = arms[np.sort(np.unique(arms, return_index=True)[1])]
        if not len(arms):
            return arms, np.empty(0)
        texts = state.pool.texts
        word_rows = state.vocabulary.rows([texts[arm] for arm in step.history[-state.length :]])
        scores = []
        for at in range(0, len(arms), _AT_ONCE):
            some = state.vocabulary.rows([texts[arm] for arm in arms[at : at + _AT_ONCE].tolist()])
            inputs = dict(zip(INPUTS, (*word_rows, *some), strict=True))
            scores.append(state.run([LIKELIHOOD_OUTPUT], inputs)[0].astype(np.float64))
        return arms, np.concatenate(scores)
