"""Choose an encoder by name, or by the size of the log."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nextquery.checks import number, one_of, whole_number
from nextquery.encode.base import Encoder
from nextquery.encode.lsa import LsaEncoder
from nextquery.encode.projection import ProjectedEncoder
from nextquery.encode.sentence import SentenceEncoder
from nextquery.encode.static import StaticEncoder
from nextquery.encode.tokens import pretrained
from nextquery.encode.tuned import TunedEncoder
from nextquery.errors import InvalidInput

AUTO = "auto"
_BUILT_IN: tuple[type[Encoder], ...] = (
    StaticEncoder,
    ProjectedEncoder,
    TunedEncoder,
    LsaEncoder,
    SentenceEncoder,
)
ENCODERS: dict[str, type[Encoder]] = {encoder.name: encoder for encoder in _BUILT_IN}

# In sessions, as measured in docs/encoders.md: with 100, a projection is worse than none; with 300,
# it is equal. Tuning is no worse with 1,000 and better with 3,000.
_ENOUGH_TO_TUNE = 1_000
_ENOUGH_TO_PROJECT = 300
_ENOUGH_KNOWN = 0.5  # of the texts: a text without a known word has no vector
_SAMPLE = 2_000  # texts


def choose(n_sessions: int, n_texts: int, *, profile: str = "text", known: float = 1.0) -> Encoder:
    """Return the encoder that suits a log of this size.

    This is the tuned encoder for 1,000 or more sessions, the projected one for 300 or more, and
    otherwise the static one. None of them needs torch or a GPU. Token vectors of prose do not help
    with SQL or with a script they do not cover: both get LSA over character n-grams.

    Parameters
    ----------
    n_sessions : sessions of two or more queries, at least 0.
    n_texts : distinct texts, at least 0.
    profile : ``text`` or ``sql``.
    known : the share of texts with a word that has a token vector, see `share_known`.

    >>> [choose(n, 5 * n).name for n in (20, 300, 5_000)]
    ['static', 'projected', 'tuned']
    >>> choose(5_000, 25_000, profile="sql").name
    'lsa'
    """
    sessions = whole_number(n_sessions, "n_sessions", at_least=0)
    whole_number(n_texts, "n_texts", at_least=0)
    number(known, "known", low=0, high=1)
    if one_of(profile, "profile", ("text", "sql")) == "sql" or known < _ENOUGH_KNOWN:
        return LsaEncoder(analyzer="char")
    if sessions >= _ENOUGH_TO_TUNE:
        return TunedEncoder()
    return ProjectedEncoder() if sessions >= _ENOUGH_TO_PROJECT else StaticEncoder()


def share_known(texts: Sequence[str]) -> float:
    """Return the share of texts with a word that has a token vector, from a sample of the texts.

    >>> share_known(["deep learning", "ሰላም"])
    0.5
    """
    sample = [texts[i] for i in range(0, len(texts), max(1, len(texts) // _SAMPLE))]
    return float((np.diff(pretrained()[0].bags(sample).indptr) > 0).mean()) if sample else 1.0


def encoder_by_name(
    name: str,
    *,
    n_sessions: int | None = None,
    n_texts: int | None = None,
    profile: str = "text",
    known: float = 1.0,
    **options: Any,
) -> Encoder:
    """Return an encoder by name, with its options; ``auto`` chooses by the size of the log.

    >>> encoder_by_name("lsa", analyzer="char").get_params()["analyzer"]
    'char'
    >>> encoder_by_name("auto", n_sessions=5_000, n_texts=25_000).name
    'tuned'
    """
    one_of(name, "encoder", (AUTO, *ENCODERS))
    if name == AUTO:
        if n_sessions is None or n_texts is None or options:
            raise InvalidInput(
                "the encoder auto chooses by the size of the log and takes no other options; "
                f"received n_sessions={n_sessions!r}, n_texts={n_texts!r} and options "
                f"{sorted(options)}. Pass both sizes, or use one of {', '.join(ENCODERS)}."
            )
        return choose(n_sessions, n_texts, profile=profile, known=known)
    try:
        return ENCODERS[name](**options)
    except TypeError as error:
        allowed = sorted(ENCODERS[name]().get_params())
        raise InvalidInput(
            f"the encoder {name} has the options {', '.join(allowed)}; received "
            f"{sorted(options)} ({error})."
        ) from error
