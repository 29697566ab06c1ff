"""Choose an encoder by name, or by the size of the log."""

from collections.abc import Sequence
from typing import Any

from nextquery.checks import number, one_of, whole_number
from nextquery.encode.encoder import Encoder
from nextquery.encode.lsa import LsaEncoder
from nextquery.encode.projected import ProjectedEncoder
from nextquery.encode.static import StaticEncoder
from nextquery.encode.tokens import FEWEST_KNOWN, pretrained
from nextquery.encode.transformers import SentenceEncoder
from nextquery.encode.tuned import TunedEncoder
from nextquery.encode.word_vectors import WordVectorsEncoder
from nextquery.errors import InvalidInput

AUTO = "auto"
_BUILT_IN: tuple[type[Encoder], ...] = (
    StaticEncoder,
    ProjectedEncoder,
    TunedEncoder,
    LsaEncoder,
    SentenceEncoder,
    WordVectorsEncoder,
)
ENCODERS: dict[str, type[Encoder]] = {encoder.name: encoder for encoder in _BUILT_IN}

# In sessions, as measured in docs/measurements/encoders.md: with 100, a projection is worse than
# none; with 300, it is equal. Tuning is no worse with 1,000 and better with 3,000.
_ENOUGH_TO_TUNE = 1_000
_ENOUGH_TO_PROJECT = 300
_GRAMS, _SHORT_GRAMS = (3, 5), (1, 3)  # the short ones where words have one to three characters


def choose(
    n_sessions: int,
    n_texts: int,
    *,
    profile: str = "text",
    known: float = 1.0,
    dense: bool = False,
) -> Encoder:
    """Return the encoder that suits a log of this size.

    This is the tuned encoder for 1,000 or more sessions, the projected one for 300 or more, and
    otherwise the static one. None of them needs torch or a GPU. Token vectors of prose do not help
    with SQL or with a script they do not cover: both get LSA over character n-grams.

    Parameters
    ----------
    n_sessions : sessions of two or more queries, at least 0.
    n_texts : distinct texts, at least 0.
    profile : ``text`` or ``sql``.
    known : the share of texts whose words have token vectors, see `share_known`.
    dense : whether words have one to three characters (Chinese, Japanese, Korean).

    >>> [choose(n, 5 * n).name for n in (20, 300, 5_000)]
    ['static', 'projected', 'tuned']
    >>> choose(5_000, 25_000, profile="sql").name
    'lsa'
    """
    sessions = whole_number(n_sessions, "n_sessions", at_least=0)
    whole_number(n_texts, "n_texts", at_least=0)
    number(known, "known", low=0, high=1)
    if one_of(profile, "profile", ("text", "sql")) == "sql" or known < FEWEST_KNOWN:
        return by_characters(dense=dense)
    if sessions >= _ENOUGH_TO_TUNE:
        return TunedEncoder()
    return ProjectedEncoder() if sessions >= _ENOUGH_TO_PROJECT else StaticEncoder()


def by_characters(*, dense: bool = False) -> LsaEncoder:
    """Return the encoder that needs no vocabulary and no spaces: LSA over character n-grams."""
    return LsaEncoder(analyzer="char", grams=_SHORT_GRAMS if dense else _GRAMS)


def share_known(texts: Sequence[str]) -> float:
    """Return the share of texts whose words have token vectors, from a sample of the texts.

    >>> share_known(["deep learning", "ሰላም"])
    0.5
    """
    return pretrained()[0].share_known(texts)


def encoder_by_name(
    name: str,
    *,
    n_sessions: int | None = None,
    n_texts: int | None = None,
    profile: str = "text",
    known: float = 1.0,
    dense: bool = False,
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
        return choose(n_sessions, n_texts, profile=profile, known=known, dense=dense)
    try:
        return ENCODERS[name](**options)
    except TypeError as error:
        allowed = sorted(ENCODERS[name]().get_params())
        raise InvalidInput(
            f"the encoder {name} has the options {', '.join(allowed)}; received "
            f"{sorted(options)} ({error})."
        ) from error
