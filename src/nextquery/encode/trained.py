"""The trained encoder: a transformer trained on the log, served by onnxruntime."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import whole_number
from nextquery.encode.base import Encoder, Vectors, fitted
from nextquery.encode.scripts import sample, share_represented
from nextquery.encode.tokens import meaningless
from nextquery.errors import InvalidInput
from nextquery.network import runner
from nextquery.sessions import AnySessions
from nextquery.vectors import unit_rows

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
