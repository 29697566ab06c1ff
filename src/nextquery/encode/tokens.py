"""Tokens and their vectors: tokenizer, script checks, token tables, closed-form projections.

A fitted static encoder consists of a table of token vectors only; a text is a sum of its rows.
The tokenizer works word by word with a cache.

A tokenizer splits a script that it hardly knows into letters. The mean of letters says nothing
about a word. So a text counts as represented only if most of its letters are in pieces of words.
"""

import functools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import installed
from nextquery.encode.encoder import Vectors
from nextquery.errors import InvalidInput
from nextquery.sessions import Ids, Sessions
from nextquery.vectors import compiled, unit_rows

Matrix = NDArray[np.float64]
Reader = Callable[[Ids], NDArray[np.float32]]
_LOG_ROWS_AT_ONCE = 1 << 15  # rows of the log read at once


def principal(moment: Matrix, dim: int) -> Matrix:
    """Return the `dim` leading eigenvectors of a matrix of second moments, as columns.

    >>> principal(np.diag([1.0, 3.0, 2.0]), 2).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    size = len(moment)
    from scipy import linalg  # slow to import

    _, vectors = linalg.eigh(moment, subset_by_index=(size - dim, size - 1))
    return _fix_signs(vectors[:, ::-1])


class Scatter(NamedTuple):
    """Second moments of the log's rows: around their session's mean, and of those means."""

    within: Matrix
    between: Matrix

    @classmethod
    def of(cls, read: Reader, sessions: Sessions) -> "Scatter":
        """Compute both scatter matrices in one pass over the sessions, per row of the log.

        S_w = Σ_s Σ_{i∈s} (z_i − m_s)(z_i − m_s)ᵀ / N,   S_b = Σ_s n_s (m_s − m)(m_s − m)ᵀ / N

        `read` returns the vectors of texts by position. Sessions of one query are left out, since
        they show nothing about agreement.
        """
        used = sessions.take(np.flatnonzero(sessions.lengths >= 2))
        if used.size < 2:
            raise InvalidInput(
                f"a session projection needs at least 2 sessions of 2 or more queries; received "
                f"{used.size}. Pass more sessions, or use the encoder static."
            )
        total: Matrix | float = 0.0
        means: Matrix | float = 0.0
        grand: Matrix | float = 0.0
        for arms, starts, lengths in _blocks(used):
            rows = read(arms).astype(np.float64)
            sums = np.add.reduceat(rows, starts, axis=0)
            total = total + rows.T @ rows
            means = means + (sums / lengths[:, None]).T @ sums
            grand = grand + sums.sum(axis=0)
        n = len(used.arms)
        mean = np.asarray(grand) / n
        return cls((np.asarray(total) - means) / n, np.asarray(means) / n - np.outer(mean, mean))


def discriminant(scatter: Scatter, dim: int, shrinkage: float) -> Matrix:
    """Regularised LDA: directions in which a session's queries agree and sessions differ.

    The columns w maximise wᵀ S_b w / wᵀ (S_w + λI) w, λ = `shrinkage` × the mean within-session
    variance tr(S_w)/d, and are scaled to a denominator of 1: S_b w = γ (S_w + λI) w.

    >>> narrow = Scatter(within=np.diag([0.01, 1.0]), between=np.diag([1.0, 1.0]))
    >>> discriminant(narrow, 1, 0.1).round(2).tolist()
    [[4.07], [0.0]]

    Reference: Fisher (1936); Friedman (1989) for the regularisation.
    """
    size = len(scatter.within)
    ridge = max(shrinkage * float(np.trace(scatter.within)) / size, 1e-12)
    noise = scatter.within + ridge * np.eye(size)
    chosen: Any = (size - dim, size - 1)
    from scipy import linalg

    _, vectors = linalg.eigh(scatter.between, noise, subset_by_index=chosen)
    return _fix_signs(vectors[:, ::-1])


def product_by_row(rows: NDArray[np.float32], matrix: Matrix) -> Matrix:
    """Compute ``rows @ matrix`` with the same bits for a row in any batch.

    BLAS sums in an order that depends on the shape of the batch; a sparse product goes row by row.

    >>> product_by_row(np.ones((1, 2), np.float32), np.array([[1.0], [2.0]])).tolist()
    [[3.0]]
    """
    n, d = rows.shape
    indices = np.tile(np.arange(d, dtype=np.int64), n)
    by_row = (rows.astype(np.float64).ravel(), indices, np.arange(0, n * d + 1, d))
    from scipy import sparse

    product: Matrix = sparse.csr_array(by_row, shape=(n, d)) @ matrix
    return product


def _blocks(sessions: Sessions) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Yield blocks of whole sessions, with their session starts and lengths."""
    first = 0
    while first < sessions.size:
        target = sessions.offsets[first] + _LOG_ROWS_AT_ONCE
        last = max(first + 1, int(np.searchsorted(sessions.offsets, target, side="right")) - 1)
        start, end = sessions.offsets[first], sessions.offsets[last]
        offsets = sessions.offsets[first : last + 1] - start
        yield sessions.arms[start:end], offsets[:-1], np.diff(offsets)
        first = last


def _fix_signs(vectors: Matrix) -> Matrix:
    """Make the largest entry of each column positive, since eigh leaves the sign open."""
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.ascontiguousarray(vectors * signs) + 0.0


_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYLLABLES = "\u3041-\u30ff\uac00-\ud7a3"  # of Japanese and Korean
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
_UNSPACED = re.compile(
    rf"[{_IDEOGRAPHS}\u3041-\u30ff]+|[{_NO_SPACES}]+|[^\s{_IDEOGRAPHS}\u3041-\u30ff{_NO_SPACES}]+"
)
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_DENSE = re.compile(f"[{_IDEOGRAPHS}{_SYLLABLES}]")
_RUNS_ON = re.compile(f"[{_IDEOGRAPHS}\u3041-\u30ff{_NO_SPACES}]")
_LETTER = re.compile(r"[^\W\d_]")
_SAMPLE = 2_000  # texts
_MOST = 0.75  # of the letters of a text
FEWEST_KNOWN = 0.5  #: share of texts below which an encoder does not suit a log
FEW_UNKNOWN = 0.05  #: share of texts above which a user should know it


def sample(texts: Sequence[str]) -> list[str]:
    """Return about 2,000 of the texts, at equal distances."""
    return [texts[i] for i in range(0, len(texts), max(1, len(texts) // _SAMPLE))]


def words_of(text: str) -> list[str]:
    """Return the words of a text; where words are not separated, overlapping pieces of them.

    >>> words_of("deep learning"), words_of("机器学习 python")
    (['deep', 'learning'], ['机器', '器学', '学习', 'python'])
    """
    if text.isascii():
        return text.split()
    words: list[str] = []
    for run in _UNSPACED.findall(text):
        size = 2 if _DENSE.match(run) else 4
        if _RUNS_ON.match(run) and len(run) > size:
            words += [run[at : at + size] for at in range(len(run) - size + 1)]
        else:
            words.append(run)
    return words


def dense(texts: Sequence[str]) -> bool:
    """Whether a word of these texts has one to three characters, as in Chinese or Korean.

    >>> dense(["机器学习"]), dense(["deep learning"])
    (True, False)
    """
    return _mostly(_DENSE, texts)


def runs_on(texts: Sequence[str]) -> bool:
    """Whether these texts are written without spaces between words.

    >>> runs_on(["机器学习"]), runs_on(["기계 학습"])
    (True, False)
    """
    return _mostly(_RUNS_ON, texts)


def _mostly(kind: re.Pattern[str], texts: Sequence[str]) -> bool:
    whole = " ".join(texts)
    return 2 * len(kind.findall(whole)) > len(_LETTER.findall(whole))


def share_represented(texts: Sequence[str], tokenizer: Any, meaningless: frozenset[int]) -> float:
    """Return the share of texts that a vocabulary of word pieces can represent.

    At least three quarters of a text's letters must be in pieces of two or more letters, or be
    ideographs or ASCII letters by themselves.

    Parameters
    ----------
    texts : cleaned texts; none is 1.0.
    tokenizer : a `tokenizers.Tokenizer`.
    meaningless : ids of tokens that are not part of a word.
    """
    if not texts:
        return 1.0
    known = 0
    for text, found in zip(texts, tokenizer.encode_batch(list(texts)), strict=True):
        named = zip(found.ids, found.tokens, strict=True)
        pieces = [token for i, token in named if i not in meaningless]
        letters = len(_LETTER.findall(text))
        represented = sum(map(_letters_of_word, pieces))
        known += represented >= _MOST * letters if letters else bool(pieces)
    return known / len(texts)


def _letters_of_word(piece: str) -> int:
    letters = _LETTER.findall(piece)
    alone = len(letters) == 1 and not letters[0].isascii() and not _IDEOGRAPH.match(letters[0])
    return 0 if alone else len(letters)


def doubt(name: str, known: float) -> str:
    """Return a sentence about the texts that an encoder cannot represent; "" if they are few.

    >>> doubt("static", 0.03).split(":")[0]
    'the encoder static cannot represent 97% of the queries'
    >>> doubt("static", 0.99)
    ''
    """
    if 1 - known <= FEW_UNKNOWN:
        return ""
    return (
        f"the encoder {name} cannot represent {1 - known:.0%} of the queries: most of their "
        "letters are not in words that it knows. Use --encoder lsa, which learns from the log, or "
        "train one on the log (nextquery train)."
    )


def check_known(name: str, known: float) -> None:
    """Raise an error if an encoder cannot represent most of the texts."""
    if known < FEWEST_KNOWN:
        raise InvalidInput(doubt(name, known))


def summed(
    table: NDArray[Any], rows: NDArray[Any], offsets: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Return Σ w·table[row] over the rows of each text, from left to right.

    Text i has the rows and weights from ``offsets[i]`` to ``offsets[i + 1]``. The order is fixed,
    so a text's vector has the same bits in any batch.

    >>> table = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> summed(table, np.array([0, 1, 1]), np.array([0, 0, 3]), np.array([1.0, 2.0, 2.0])).tolist()
    [[0.0, 0.0], [1.0, 4.0]]
    """
    out = np.zeros((len(offsets) - 1, table.shape[1]), table.dtype)
    # One type each, so that the kernel is compiled only once for a kind of table.
    rows, offsets = np.asarray(rows, np.int64), np.asarray(offsets, np.int64)
    compiled(_add)(table, rows, offsets, np.asarray(weights, table.dtype), out)
    return out


def _add(table: Any, rows: Any, offsets: Any, weights: Any, out: Any) -> None:
    for text in range(len(offsets) - 1):
        for at in range(offsets[text], offsets[text + 1]):
            row, weight = table[rows[at]], weights[at]
            for column in range(out.shape[1]):
                out[text, column] += weight * row[column]


_TEXTS = 1 << 14  # texts tokenised at once
_CACHED = 1 << 20  # words in the cache before it is emptied
_LONG = 64  # a longer word rarely occurs twice
_MARKS = re.compile("^##|▁")  # marks of a word's continuation and of its start
_NO_WORD = re.compile("<0x[0-9A-F]{2}>|▁")  # bytes, and the mark of a word's start alone


class Tokens:
    """Turn texts into bags of token ids, with a tokenizer given as JSON.

    wordllama's tokenizer (like any word-piece tokenizer) has no token that spans a space. So a
    text's tokens are the tokens of its words, and a cached word costs one look-up. Bytes (how the
    tokenizer spells characters outside its vocabulary) and special tokens are left out. A text
    with nothing else has no tokens.

    >>> tokens, table = pretrained()
    >>> bags = tokens.bags(["deep learning", "☃ 🫠", ""])
    >>> np.diff(bags.indptr).tolist(), bags.shape
    ([2, 0, 0], (3, 32000))
    """

    def __init__(self, json: bytes) -> None:
        self.json = json
        self._tokenizer, self._meaningless = _parsed(json)
        self._known: dict[str, tuple[int, ...]] = {}
        self.size = int(self._tokenizer.get_vocab_size())

    def bags(self, texts: Sequence[str]) -> Any:
        """Return a sparse row of ones per text, so that ``bags @ table`` sums token vectors."""
        from scipy import sparse  # slow to import

        ids, offsets = self.ids(texts)
        ones = np.ones(len(ids), np.float32)
        return sparse.csr_array((ones, ids, offsets), shape=(len(texts), self.size))

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the token ids of all texts, and where those of each text begin.

        >>> ids, offsets = pretrained()[0].ids(["deep learning", ""])
        >>> len(ids), offsets.tolist()
        (2, [0, 2, 2])
        """
        parts = [self._ids(texts[at : at + _TEXTS]) for at in range(0, len(texts), _TEXTS)]
        ids = np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in parts)])
        lengths = np.concatenate([np.zeros(1, np.int64), *(counts for _, counts in parts)])
        return ids, np.cumsum(lengths)

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words are in the vocabulary, from a sample of them.

        >>> pretrained()[0].share_known(["deep learning", "ሰላም", "السلام عليكم", "☃"])
        0.25
        """
        return share_represented(sample(texts), self._tokenizer, self._meaningless)

    def words(self) -> list[str]:
        """Return each token as written in a text, in order of id; empty if it has no meaning.

        >>> pretrained()[0].words()[260]
        't'
        """
        named = sorted(self._tokenizer.get_vocab().items(), key=lambda item: item[1])
        return ["" if i in self._meaningless else _MARKS.sub("", name) for name, i in named]

    def _ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        split = [text.split() for text in texts]
        tokens_of = self._look_up(split)
        bags = [tuple(chain.from_iterable(map(tokens_of.__getitem__, words))) for words in split]
        lengths = np.fromiter(map(len, bags), np.int64, len(bags))
        return np.fromiter(chain.from_iterable(bags), np.int32, int(lengths.sum())), lengths

    def _look_up(self, split: Sequence[Sequence[str]]) -> dict[str, tuple[int, ...]]:
        known = self._known
        fresh = list({word: None for words in split for word in words if word not in known})
        if not fresh:
            return known
        if len(known) > _CACHED:  # other threads continue with the old dictionary
            known, fresh = {}, list({word: None for words in split for word in words})
            self._known = known
        pieces = self._tokenizer.encode_batch(fresh, add_special_tokens=False)
        new = {word: self._meaning(piece.ids) for word, piece in zip(fresh, pieces, strict=True)}
        known.update((word, ids) for word, ids in new.items() if len(word) <= _LONG)
        longer = {word: ids for word, ids in new.items() if len(word) > _LONG}
        return {**known, **longer} if longer else known

    def _meaning(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(i for i in ids if i not in self._meaningless)


@functools.lru_cache(maxsize=2)
def _parsed(json: bytes) -> tuple[Any, frozenset[int]]:
    """Return a tokenizer, and which of its ids have no meaning.

    To parse a vocabulary takes a tenth of a second, and most encoders have the same one.
    """
    from tokenizers import Tokenizer  # imported only if an encoder needs it

    tokenizer: Any = Tokenizer.from_buffer(json)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, meaningless(tokenizer)


def meaningless(tokenizer: Any) -> frozenset[int]:
    """Return the ids that are not part of a word: special tokens, the unknown one, single bytes."""
    special = tokenizer.get_added_tokens_decoder().items()
    ids = {int(i) for i, token in special if token.special}
    return frozenset(ids | {i for t, i in tokenizer.get_vocab().items() if _NO_WORD.fullmatch(t)})


@functools.cache
def pretrained() -> tuple[Tokens, NDArray[np.float32]]:
    """Load wordllama's tokenizer and its 32,000 × 256 token vectors from its package, offline.

    Reference: WordLlama (Miller 2024), token vectors distilled from large language models.
    """
    installed("ingest", "scipy", "wordllama")
    root, quiet = logging.getLogger(), logging.NullHandler()
    root.addHandler(quiet)  # wordllama configures the root logger on import unless it has a handler
    try:
        import wordllama
    finally:
        root.removeHandler(quiet)
    # The package's own folder is the cache, and downloads are off: no network access.
    model = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )
    table = np.ascontiguousarray(model.embedding, np.float32)
    table.flags.writeable = False
    return Tokens(model.tokenizer.to_str().encode()), table


_TEXTS_AT_ONCE = 1 << 14  # texts encoded at once
_TABLE, _TOKENIZER = "encoder_table.npy", "encoder_tokenizer.json"


class TokenTable:
    """A text is the mean of its token vectors, scaled to length 1: x = Σ_w E_w / ‖Σ_w E_w‖.

    Any linear map of the vectors is a map of the table, because normalising removes the scale:
    (Σ E_w) W = Σ (E_w W). So projections are folded in once and cost nothing afterwards.

    The tokens of a text are summed in order, so its vector has the same bits in any batch.

    The folder contains the tokenizer too, because the ids of a table are meaningless with another
    vocabulary. So serving needs neither wordllama's weights nor a specific version of it.
    """

    def __init__(self, tokens: Tokens, rows: NDArray[Any]) -> None:
        self.tokens = tokens
        self.rows = np.ascontiguousarray(rows, np.float32)

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.rows.shape[1])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, or a zero row for a text without a known token."""
        out = np.empty((len(texts), self.dim), np.float32)
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            ids, offsets = self.tokens.ids(texts[at : at + _TEXTS_AT_ONCE])
            sums = summed(self.rows, ids, offsets, np.ones(len(ids), np.float32))
            out[at : at + _TEXTS_AT_ONCE] = unit_rows(sums, allow_zero=True)
        return out

    def of(self, bags: Any) -> Vectors:
        """Return unit rows for bags of tokens."""
        return unit_rows(bags @ self.rows, allow_zero=True)

    def times(self, matrix: NDArray[Any]) -> "TokenTable":
        """Return the table with a projection folded in."""
        return TokenTable(self.tokens, self.rows @ matrix.astype(np.float32))

    def reader(self, texts: Sequence[str]) -> Callable[[NDArray[np.int64]], Vectors]:
        """Return a function from positions to vectors of the texts; only bags stay in memory."""
        bags = self.tokens.bags(texts)
        return lambda positions: self.of(bags[positions])

    def parts(self) -> dict[str, folders.Part]:
        """Return the parts to save: the table and the tokenizer of its rows."""
        return {_TABLE: self.rows, _TOKENIZER: self.tokens.json}

    @classmethod
    def restored(cls, folder: folders.Folder) -> "TokenTable":
        """Load the table from an opened folder."""
        tokens = Tokens(folder.file(_TOKENIZER).read_bytes())
        return cls(tokens, np.array(folder.array(_TABLE)))
