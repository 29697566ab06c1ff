"""What the script of a log asks of an encoder: where words end, and which texts it can represent.

A tokenizer spells a script that it hardly knows letter by letter. The mean of letters says nothing
about a word, so a text counts as represented only if most of its letters are in pieces of words.
"""

import re
from collections.abc import Sequence
from typing import Any

from nextquery.errors import InvalidInput

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
