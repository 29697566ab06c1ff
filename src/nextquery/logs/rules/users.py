"""User ids: which are placeholders for "no user", and which mean the same user."""

import re
import unicodedata

PLACEHOLDERS = (
    *("null", "(null)", "none", "nil", "nan", "n/a", "na", "-", "undefined"),
    *("unknown", "anonymous", "anon", "guest", "\\n"),
)
"""Ids that applications send when nobody is logged in, in lower case."""
# Joiners, direction marks and other characters that nobody sees.
_INVISIBLE = re.compile(r"[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def normalised_user(user_id: str) -> str | None:
    """Return the one spelling of a user id, or None if it names nobody.

    Compatibility forms (NFKC), letter case, invisible characters and surrounding white space make
    no difference: spellings of one id must never count as two users.

    >>> normalised_user(" U9"), normalised_user("\uff559"), normalised_user("Anonymous")
    ('u9', 'u9', None)
    """
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", user_id))
    spelt = unicodedata.normalize("NFKC", visible.casefold()).strip()
    return None if not spelt or spelt in PLACEHOLDERS else spelt
