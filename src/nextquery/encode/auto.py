"""Which encoder: by name, or by what the log can teach."""

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
_OURS: tuple[type[Encoder], ...] = (
    StaticEncoder,
    ProjectedEncoder,
    TunedEncoder,
    LsaEncoder,
    SentenceEncoder,
)
ENCODERS: dict[str, type[Encoder]] = {encoder.name: encoder for encoder in _OURS}

# In sessions, as docs/encoders.md measured them: with 100 a projection is worse than none, with 300
# level; tuning costs nothing with 1,000 and gains with 3,000.
_ENOUGH_TO_TUNE = 1_000
_ENOUGH_TO_PROJECT = 300
_ENOUGH_KNOWN = 0.5  # of the texts: without a known word they have no vector at all
_LOOKED_AT = 2_000  # texts


def choose(n_sessions: int, n_texts: int, *, profile: str = "text", known: float = 1.0) -> Encoder:
    """The encoder that a log of this size supports.

    Tuned from a thousand sessions on, projected from three hundred, else static: none
    of them needs torch or a GPU. SQL has no use for token vectors of prose, and neither has a
    script that they do not know: both get LSA over character n-grams.

    Parameters
    ----------
    n_sessions : sessions of two or more queries, at least 0.
    n_texts : distinct texts, at least 0.
    profile : ``text`` or ``sql``.
    known : the share of texts of which the token vectors know a word, see `share_known`.

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
    """The share of some texts of which the token vectors know a word.

    >>> share_known(["deep learning", "ሰላም"])
    0.5
    """
    some = [texts[i] for i in range(0, len(texts), max(1, len(texts) // _LOOKED_AT))]
    return float((np.diff(pretrained()[0].bags(some).indptr) > 0).mean()) if some else 1.0


def encoder_by_name(
    name: str,
    *,
    n_sessions: int | None = None,
    n_texts: int | None = None,
    profile: str = "text",
    known: float = 1.0,
    **options: Any,
) -> Encoder:
    """An encoder by its name, with its own options; ``auto`` chooses by the size of the log.

    >>> encoder_by_name("lsa", analyzer="char").get_params()["analyzer"]
    'char'
    >>> encoder_by_name("auto", n_sessions=5_000, n_texts=25_000).name
    'tuned'
    """
    one_of(name, "encoder", (AUTO, *ENCODERS))
    if name == AUTO:
        if n_sessions is None or n_texts is None or options:
            raise InvalidInput(
                "the encoder auto chooses by the size of the log and takes no options of its own; "
                f"received n_sessions={n_sessions!r}, n_texts={n_texts!r} and options "
                f"{sorted(options)}. Give both sizes, or name one of {', '.join(ENCODERS)}."
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
