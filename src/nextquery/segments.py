"""Segments: parts of a log that never see each other's queries, such as tenants or languages.

An arm belongs to one segment, and its key (its text in the pool) names it: the segment, a separator
that no clean text contains, and the cleaned text. So the same query in two segments is two arms,
each with its own users, sessions and followers. Rows and requests without a segment are in the
segment "", whose keys are the plain texts, as in a log without segments.
"""

from nextquery.errors import InvalidInput

LONGEST_SEGMENT = 64  #: characters in the name of a segment
SEPARATOR = "\x1f"  # the "unit separator": cleaning removes control characters from queries


def key_of(segment: str, text: str) -> str:
    """Return the key of a cleaned text in a segment.

    >>> key_of("", "tea"), key_of("de", "tea"), key_of("", "de\\x1ftea")
    ('tea', 'de\\x1ftea', 'de tea')
    """
    plain = text.replace(SEPARATOR, " ") if SEPARATOR in text else text
    return f"{segment}{SEPARATOR}{plain}" if segment else plain


def text_of(key: str) -> str:
    """Return the text of a key, without its segment.

    >>> text_of("tea"), text_of("de\\x1ftea")
    ('tea', 'tea')
    """
    return key[key.find(SEPARATOR) + 1 :]


def segment_of(key: str) -> str:
    """Return the segment of a key.

    >>> segment_of("tea"), segment_of("de\\x1ftea")
    ('', 'de')
    """
    return key.partition(SEPARATOR)[0] if SEPARATOR in key else ""


def check_segment(value: object) -> str:
    """Return the name of a segment without white space around it; None means "".

    >>> check_segment(" de-AT "), check_segment(None)
    ('de-AT', '')
    """
    name = "" if value is None else value.strip() if isinstance(value, str) else None
    if name is None or len(name) > LONGEST_SEGMENT or not name.isprintable():
        shown = ascii(value[:40]) if isinstance(value, str) else repr(value)[:40]
        raise InvalidInput(
            f"segment must be a text of at most {LONGEST_SEGMENT} characters without control "
            f"characters, such as a language or a tenant; received {shown}. Leave it out for the "
            "rows without a segment."
        )
    return name
