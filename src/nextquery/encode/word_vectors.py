"""Word vectors trained on the log itself: PPMI and SVD, averaged with SIF weights."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import installed, whole_number
from nextquery.encode.encoder import Encoder, Vectors, fitted
from nextquery.encode.tokens import summed, words_of
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions, Sessions
from nextquery.vectors import unit_rows

_WORDS, _TABLE = "encoder_words.json", "encoder_word_vectors.npy"
_CONTEXTS = 20_000  # the commonest words, beside which the others are counted
_SMOOTHING = 0.75  # of the contexts' frequencies, as in word2vec
_COMMON = 1e-3  # a of the SIF weights: words more frequent than this count for less


class WordVectorsEncoder(Encoder):
    """The mean of word vectors that only the log has taught: no pretrained model, no GPU.

    Words are alike if the same words stand beside them, in their query or in the queries before and
    after it in a session. With counts n(w, c), PPMI is max(0, log n(w, c) N / (n(w) n(c)^¾)), and
    its truncated SVD U S Vᵀ gives the word vectors U √S: the factorisation that skip-gram with
    negative sampling (word2vec) finds too. A text is Σ_w a / (a + p(w)) · v_w, scaled to length 1,
    so that frequent words count for less. A word that stands alone is like itself only.

    Parameters
    ----------
    dim : maximum number of dimensions (fewer if the log has fewer words), at least 1.
    seed : seed of the randomised SVD.

    >>> texts = ["red cat", "black cat", "red dog", "black dog", "white wine", "dry wine"]
    >>> encoder = WordVectorsEncoder(dim=3).fit(texts)
    >>> cat, dog, wine = encoder.encode(["cat", "dog", "wine"])  # cat and dog never meet
    >>> bool(cat @ dog > 0.9), bool(cat @ wine < 0.1)
    (True, True)

    Reference: Mikolov et al. (2013) and Le and Mikolov (2014), which the paper cites; Levy and
    Goldberg (2014) for the factorisation; Arora, Liang and Ma (2017) for the weights (SIF; their
    second step, removing the direction that texts share, did not help here).
    """

    name: ClassVar[str] = "word-vectors"

    def __init__(self, dim: int = 128, *, seed: int = 0) -> None:
        self.dim = whole_number(dim, "dim", at_least=1)
        self.seed = whole_number(seed, "seed", at_least=0)
        self._places: dict[str, int] | None = None
        self._vectors: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Count which words stand beside which, and factorise the counts."""
        installed("ingest", "scipy", "sklearn")
        checked = Sessions.of(sessions, len(texts))
        places: dict[str, int] = {}
        for text in texts:
            for word in words_of(text):
                places.setdefault(word, len(places))
        if not places:
            raise InvalidInput(
                f"cannot fit word vectors on {len(texts)} texts without words. Pass texts with "
                "words, or use the encoder lsa with analyzer='char'."
            )
        self._places = places
        bags = self._bags(texts)
        self._report("counting words")
        vectors = self._factorised(_ppmi(bags, _with_neighbours(bags, checked)))
        share = bags.sum(axis=0) / bags.sum()
        vectors *= (_COMMON / (_COMMON + share))[:, None]
        self._vectors = vectors.astype(np.float32)
        self.dim = vectors.shape[1]
        return self

    def _factorised(self, ppmi: Any) -> NDArray[np.float64]:
        """Return U √S; a word without a context gets a direction of its own."""
        from sklearn.utils.extmath import randomized_svd  # takes a second, so only when fitting

        self._report("factorising")
        rank = min(self.dim, *ppmi.shape)
        left, strengths, _ = randomized_svd(ppmi, rank, random_state=self.seed)
        vectors: NDArray[np.float64] = left * np.sqrt(strengths)
        alone = np.flatnonzero(np.diff(ppmi.indptr) == 0)
        length = np.linalg.norm(vectors, axis=1).mean() or 1.0
        own = np.random.default_rng(self.seed).normal(size=(len(alone), rank))
        vectors[alone] = own * (length / np.linalg.norm(own, axis=1, keepdims=True))
        return vectors

    def _encode(self, texts: Sequence[str]) -> Vectors:
        fitted(self._places, self)
        if not texts:
            return np.empty((0, self.dim), np.float32)
        words, offsets = self._known(texts)
        sums = summed(self._vectors, words, offsets, np.ones(len(words), np.float32))
        return unit_rows(sums, allow_zero=True)

    def _known(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the known words of all texts, each once a text, and where each text begins."""
        places = fitted(self._places, self)
        known = [[places[w] for w in dict.fromkeys(words_of(t)) if w in places] for t in texts]
        offsets = np.cumsum([0, *map(len, known)])
        words = np.fromiter((i for row in known for i in row), np.int32, int(offsets[-1]))
        return words, offsets

    def _bags(self, texts: Sequence[str]) -> Any:
        """Return a sparse row per text: 1 for each of its known words."""
        from scipy import sparse  # slow to import

        words, offsets = self._known(texts)
        ones, shape = np.ones(len(words), np.float32), (len(texts), len(fitted(self._places, self)))
        return sparse.csr_array((ones, words, offsets), shape=shape)

    def parts(self) -> dict[str, folders.Part]:
        """Return the words and their vectors, in the same order."""
        words = list(fitted(self._places, self))
        blob = json.dumps(words, ensure_ascii=False).encode()
        return {_WORDS: blob, _TABLE: self._vectors}

    def _restore(self, folder: folders.Folder) -> None:
        words = json.loads(folder.file(_WORDS).read_text(encoding="utf-8"))
        self._places = {word: place for place, word in enumerate(words)}
        self._vectors = np.array(folder.array(_TABLE))


def _with_neighbours(bags: Any, sessions: Sessions) -> Any:
    """Return each text's words and those of the texts before and after it in the sessions."""
    from scipy import sparse

    if len(sessions.arms) < 2:
        return bags
    inside = np.ones(len(sessions.arms) - 1, bool)
    inside[sessions.offsets[1:-1] - 1] = False  # from one session to the next
    left, right = sessions.arms[:-1][inside], sessions.arms[1:][inside]
    rows, columns = np.concatenate([left, right]), np.concatenate([right, left])
    shape = (bags.shape[0], bags.shape[0])
    steps = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    return bags + steps @ bags


def _ppmi(bags: Any, neighbours: Any) -> Any:
    """Return the positive pointwise mutual information of words and contexts, sparse."""
    from scipy import sparse

    commonest = np.argsort(-bags.sum(axis=0), kind="stable")[:_CONTEXTS]
    counts = (bags.T.tocsr() @ neighbours[:, commonest].tocsr()).tocoo()
    other = counts.row != commonest[counts.col]  # a word is no context of itself
    words, contexts = counts.row[other], counts.col[other]
    seen = counts.data[other].astype(np.float64)
    of_word = np.bincount(words, seen, bags.shape[1])
    of_context = np.bincount(contexts, seen, len(commonest)) ** _SMOOTHING
    pmi = np.log(seen * of_context.sum() / (of_word[words] * of_context[contexts]))
    kept = pmi > 0
    shape = (bags.shape[1], len(commonest))
    return sparse.csr_array((pmi[kept], (words[kept], contexts[kept])), shape=shape)
