"""User ids: which are placeholders for "no user", and which mean the same user."""

import re
import unicodedata

from nextquery.signing import keyed

PLACEHOLDERS = (
    *("null", "(null)", "none", "nil", "nan", "n/a", "na", "-", "undefined"),
    *("unknown", "anonymous", "anon", "guest", "\\n"),
)
"""Ids that applications send when nobody is logged in, in lower case."""
# Characters that nobody sees: Unicode's "default ignorable" ones, and the empty Braille pattern.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_DASHES = re.compile("[\u2010-\u2015\u2212]+|--+")
_QUOTES = "'\"`\u2018\u2019\u201c\u201d\u00ab\u00bb"


def one_spelling(id: str) -> str:
    """Return the one spelling of an id.

    Compatibility forms (NFKC), letter case, invisible characters, white space and quotes around it
    make no difference.

    >>> one_spelling(" U9"), one_spelling("\uff559\ufe0f"), one_spelling("'a  b'")
    ('u9', 'u9', 'a b')
    """
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", id)))
    folded = unicodedata.normalize("NFKC", visible.casefold())
    return " ".join(folded.split()).strip(_QUOTES).strip()


def normalised_user(user_id: str) -> str | None:
    """Return the one spelling of a user id, or None if it names nobody.

    >>> normalised_user(" U9"), normalised_user("Anonymous"), normalised_user("\u2014")
    ('u9', None, None)
    """
    spelt = one_spelling(user_id)
    return None if not spelt or _DASHES.sub("-", spelt) in PLACEHOLDERS else spelt


def person_hash(secret: str, owner: str, user_id: str) -> str | None:
    """Return the keyed hash of a person with an own past, or None if the id names nobody.

    Unlike `normalised_user`, spelling and letter case matter: two accounts never share a past. The
    same id of another owner is another person.

    Parameters
    ----------
    secret : the service's `user_hash_secret`.
    owner : whose application knows the id, as in `nextquery keys list`; "" without API keys.
    user_id : the id exactly as it was sent or logged.

    >>> ann = person_hash("s", "shop", "ann")
    >>> ann == person_hash("s", "shop", "ann"), ann == person_hash("s", "shop", "Ann")
    (True, False)
    >>> ann == person_hash("s", "blog", "ann"), person_hash("s", "shop", "Anonymous")
    (False, None)
    """
    if normalised_user(user_id) is None:
        return None
    return keyed(secret, "person", f"{owner}\0{user_id}")
