"""Transformer encoders: any sentence-transformers model, or a transformer trained on the log.

The sentence encoder reduces a pretrained model's vectors on the log. The trained encoder is
served by onnxruntime.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import installed, one_of, whole_number
from nextquery.encode.encoder import Encoder, Vectors, fitted
from nextquery.encode.tokens import (
    Scatter,
    discriminant,
    meaningless,
    principal,
    product_by_row,
    sample,
    share_represented,
)
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions, Sessions
from nextquery.vectors import unit_rows

_MATRIX = "encoder_projection.npy"
_SHRINKAGE = 0.1


class SentenceEncoder(Encoder):
    """A pretrained sentence model: the best vectors for unseen queries, at hundreds per second.

    x = Wᵀz / ‖Wᵀz‖, z the model's unit vector. The folder contains the model's name and W, never
    the model. Wherever you load the encoder, the model must be at its local path or in the local
    cache.

    Parameters
    ----------
    model : a sentence-transformers model, by name or by the path of its folder.
    reduce : how W is fitted: ``sessions`` (LDA, sessions as classes), ``texts`` (PCA), or
        ``none`` (W = I, the model's own dimension).
    dim : dimensions kept by a reduction, at least 1; never more than the model has.
    batch : texts the model reads at once, at least 1; vectors agree to 1e-5 for any value.

    Reference: Reimers and Gurevych (2019).

    >>> encoder = SentenceEncoder("models/my-model", reduce="none")  # read at the first text
    >>> encoder.get_params()["reduce"]
    'none'
    """

    name: ClassVar[str] = "sentence"

    def __init__(
        self,
        model: str | os.PathLike[str] = "sentence-transformers/all-MiniLM-L6-v2",
        dim: int = 128,
        *,
        reduce: str = "sessions",
        batch: int = 64,
    ) -> None:
        # An absolute path works from any directory; a name is a model on the hub.
        self.model = os.path.abspath(model) if os.path.isdir(model) else os.fspath(model)
        self.dim = whole_number(dim, "dim", at_least=1)
        self.reduce = one_of(reduce, "reduce", ("sessions", "texts", "none"))
        self.batch = whole_number(batch, "batch", at_least=1)
        self._model: Any = None
        self._matrix: NDArray[np.float64] | None = None

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Fit the reduction; the model does not change."""
        checked = Sessions.of(sessions, len(texts))
        if self.reduce == "none":  # nothing to fit
            self.dim = _width(self._loaded())
            self._matrix = np.eye(self.dim)
            return self
        rows = self._read(texts)
        self.dim = min(self.dim, rows.shape[1])
        if self.reduce == "sessions":
            scatter = Scatter.of(rows.__getitem__, checked)
            self._matrix = discriminant(scatter, self.dim, _SHRINKAGE)
        else:
            wide = rows.astype(np.float64)
            self._matrix = principal(wide.T @ wide, self.dim)
        return self

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words are in the model's vocabulary.

        It is 1.0 for a model whose tokenizer does not tell.
        """
        tokenizer = getattr(self._loaded().tokenizer, "backend_tokenizer", None)
        if tokenizer is None:
            return 1.0
        return share_represented(sample(texts), tokenizer, meaningless(tokenizer))

    def _encode(self, texts: Sequence[str]) -> Vectors:
        matrix = fitted(self._matrix, self)
        rows = self._read(texts)
        if self.reduce == "none" or not texts:
            return rows.reshape(len(texts), self.dim)
        return unit_rows(product_by_row(rows, matrix), allow_zero=True)

    def _read(self, texts: Sequence[str]) -> Vectors:
        """Return the model's unit vectors, with a zero row for an empty text."""
        model = self._loaded()
        rows = np.zeros((len(texts), int(_width(model))), np.float32)
        filled = [place for place, text in enumerate(texts) if text.strip()]
        step = 64 * self.batch
        for at in range(0, len(filled), step):
            self._report("encoding with the sentence model", at / len(filled))
            part = filled[at : at + step]
            rows[part] = model.encode(
                [texts[place] for place in part],
                batch_size=self.batch,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return unit_rows(rows, allow_zero=True)

    def _loaded(self) -> Any:
        if self._model is None:
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise InvalidInput(
                    "the sentence encoder needs sentence-transformers, which is not installed: "
                    'pip install "nextquery[sentence]". Or use another encoder, such as tuned.'
                ) from error
            try:
                self._model = SentenceTransformer(self.model)
            except Exception as error:  # file errors of any of the libraries involved
                raise InvalidInput(
                    f"could not load the sentence model {self.model!r}: {error}. Pass the path of "
                    "its folder, or the name of a model that is on this machine or can be fetched."
                ) from error
        return self._model

    def parts(self) -> dict[str, folders.Part]:
        """Return the reduction; the manifest names the model."""
        return {_MATRIX: fitted(self._matrix, self)}

    def _restore(self, folder: folders.Folder) -> None:
        self._matrix = np.array(folder.array(_MATRIX))


def _width(model: Any) -> int:
    # Renamed in sentence-transformers 5; the old name still works, with a warning.
    width = getattr(model, "get_embedding_dimension", None)
    return int((width or model.get_sentence_embedding_dimension)())


_MODEL, _TOKENIZER = "encoder_model.onnx", "encoder_tokenizer.json"
_TEXTS = 1 << 13  # texts tokenised at once
_TOKENS = 1 << 12  # tokens read at once: fits a core's cache


class TrainedEncoder(Encoder):
    """The encoder that ``nextquery train`` writes: an ONNX model and its tokenizer, without torch.

    Texts with the same number of tokens are read together, so nothing is padded and a text's vector
    does not depend on its neighbours. Each core reads whole batches: sums split over threads would
    differ in the last bits on a machine with another number of cores.

    Parameters
    ----------
    dim : dimensions of the model's vectors, at least 1.
    max_tokens : longer texts are truncated, as in training; at least 3.

    >>> encoder = TrainedEncoder(dim=64)  # without a model; `Encoder.load(folder)` has one
    >>> encoder.get_params()
    {'dim': 64, 'max_tokens': 64}
    """

    name: ClassVar[str] = "trained"

    def __init__(self, dim: int = 128, *, max_tokens: int = 64) -> None:
        self.dim = whole_number(dim, "dim", at_least=1)
        self.max_tokens = whole_number(max_tokens, "max_tokens", at_least=3)
        self._model: bytes | None = None
        self._json = b""
        self._run: Any = None
        self._tokenizer: Any = None
        self._meaningless: frozenset[int] = frozenset()

    def holding(self, model: bytes, tokenizer: bytes) -> Self:
        """Use an ONNX model (token ids in, unit rows out) and its tokenizer, given as JSON."""
        from tokenizers import Tokenizer

        self._model, self._json, self._run = model, tokenizer, None
        self._tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)
        self._meaningless = meaningless(self._tokenizer)
        return self

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Raise an error: training takes a GPU or hours, and has its own command."""
        raise InvalidInput(
            "a trained encoder cannot be fitted here. Train it with `nextquery train LOG --out "
            "ENCODER` and pass `--encoder ENCODER`, or use the encoder tuned."
        )

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words are in its vocabulary."""
        fitted(self._model, self)
        return share_represented(sample(texts), self._tokenizer, self._meaningless)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        fitted(self._model, self)
        out = np.zeros((len(texts), self.dim), np.float32)
        for at in range(0, len(texts), _TEXTS):
            self._read(texts[at : at + _TEXTS], out[at : at + _TEXTS])
        return out

    def _read(self, texts: Sequence[str], out: Vectors) -> None:
        run = self._runner()
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]
        known = [not self._meaningless.issuperset(ids) for ids in tokens]
        lengths = np.where(known, [len(ids) for ids in tokens], 0)
        batches = []
        for length in np.unique(lengths[lengths > 0]).tolist():
            same = np.flatnonzero(lengths == length)
            step = max(1, _TOKENS // length)
            batches += [same[at : at + step] for at in range(0, len(same), step)]

        def read(part: NDArray[np.intp]) -> None:
            ids: NDArray[np.int64] = np.array([tokens[i] for i in part], np.int64)
            if len(part) == 1:  # a single row would be summed in another order: read it twice
                ids = np.repeat(ids, 2, axis=0)
            out[part] = unit_rows(run(["vectors"], {"ids": ids})[0][: len(part)])

        if len(batches) == 1:
            read(batches[0])
            return
        with ThreadPoolExecutor(_cores()) as cores:
            for _ in cores.map(read, batches):
                pass

    def _runner(self) -> Any:
        if self._run is None:
            self._run = runner(fitted(self._model, self))
        return self._run

    def parts(self) -> dict[str, folders.Part]:
        """Return the model and its tokenizer."""
        return {_MODEL: fitted(self._model, self), _TOKENIZER: self._json}

    def _restore(self, folder: folders.Folder) -> None:
        self.holding(folder.file(_MODEL).read_bytes(), folder.file(_TOKENIZER).read_bytes())


def _cores() -> int:
    """Return how many batches to read at once: ``OMP_NUM_THREADS``, or the number of cores."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads):
        return int(threads)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def runner(network: bytes) -> Any:
    """Return the function ``run(outputs, inputs)`` of an ONNX network.

    It uses one thread: sums split over threads would differ in the last bits on a machine with
    another number of cores.
    """
    installed("trained", "onnxruntime")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"]).run
