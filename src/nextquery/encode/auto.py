"""Which encoder: by name, or by what the log can teach."""

from typing import Any

from nextquery.checks import one_of, whole_number
from nextquery.encode.base import Encoder
from nextquery.encode.lsa import LsaEncoder
from nextquery.encode.projection import ProjectedEncoder
from nextquery.encode.sentence import SentenceEncoder
from nextquery.encode.static import StaticEncoder
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


def choose(n_sessions: int, n_texts: int, *, profile: str = "text") -> Encoder:
    """The encoder that a log of this size supports.

    Tuned from a thousand sessions on, projected from three hundred, else static: none
    of them needs torch or a GPU. SQL has no use for token vectors of prose: its profile gets LSA
    over character n-grams.

    Parameters
    ----------
    n_sessions : sessions of two or more queries, at least 0.
    n_texts : distinct texts, at least 0.
    profile : ``text`` or ``sql``.

    >>> [choose(n, 5 * n).name for n in (20, 300, 5_000)]
    ['static', 'projected', 'tuned']
    >>> choose(5_000, 25_000, profile="sql").name
    'lsa'
    """
    sessions = whole_number(n_sessions, "n_sessions", at_least=0)
    whole_number(n_texts, "n_texts", at_least=0)
    if one_of(profile, "profile", ("text", "sql")) == "sql":
        return LsaEncoder(analyzer="char")
    if sessions >= _ENOUGH_TO_TUNE:
        return TunedEncoder()
    return ProjectedEncoder() if sessions >= _ENOUGH_TO_PROJECT else StaticEncoder()


def encoder_by_name(
    name: str,
    *,
    n_sessions: int | None = None,
    n_texts: int | None = None,
    profile: str = "text",
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
        return choose(n_sessions, n_texts, profile=profile)
    try:
        return ENCODERS[name](**options)
    except TypeError as error:
        allowed = sorted(ENCODERS[name]().get_params())
        raise InvalidInput(
            f"the encoder {name} has the options {', '.join(allowed)}; received "
            f"{sorted(options)} ({error})."
        ) from error
