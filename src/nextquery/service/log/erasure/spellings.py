"""Finding texts that leave the log, in every spelling in which people may have typed them."""

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

from nextquery.segments import key_of, segment_of, text_of
from nextquery.service.log.events import DecisionEvent

_ARM = re.compile(r'"anchor_arm":(\d+|null)')
_TEXTS = re.compile(r'"(?:text|query|after_text)":"((?:[^"\\]|\\.)*)"')
_SEGMENT = re.compile(r'"segment":"((?:[^"\\]|\\.)*)"')
_QUERY = re.compile(r'"query":"((?:[^"\\]|\\.)*)"')


def plain(text: str) -> str:
    """Return a text as it is compared: without regard to case and white space.

    >>> plain("Straße  A")
    'straße a'
    """
    return " ".join(text.lower().split())


def letters(text: str) -> str:
    """Return the letters and digits of a query, which cleaning keeps.

    >>> letters("Ärzte, in%20Köln?") == letters("arzte in koln")
    True
    """
    decoded = unquote(text) if "%" in text else text
    if not decoded.isascii():
        decoded = unicodedata.normalize("NFKD", decoded)
    return "".join(filter(str.isalnum, decoded.casefold()))


class Asked(NamedTuple):
    """The query of a decision, as it was typed, with its arm and its segment."""

    query: str
    arm: int | None
    segment: str = ""

    @property
    def text(self) -> str:
        """Its key as a text, as `plain` gives it."""
        return plain(key_of(self.segment, self.query))

    @property
    def letters(self) -> str:
        """Its key by its letters."""
        return key_of(self.segment, letters(self.query))


def asked_in(body: str) -> Asked:
    """Return the query in the JSON of a decision."""
    query, arm = _QUERY.search(body), _ARM.search(body)
    known = int(arm[1]) if arm and arm[1] != "null" else None
    return Asked(_read(query[1]) if query else "", known, _segment(body))


def letters_of(key: str) -> str:
    """Return the key of a text by its letters, as `Asked.letters`."""
    return key_of(segment_of(key), letters(text_of(key)))


def texts_in(body: str) -> set[str]:
    """Return the keys of the texts in the JSON of a decision, as `plain` gives them."""
    texts, segment = [_read(text) for text in _TEXTS.findall(body)], _segment(body)
    found = set(map(plain, texts))  # some have their segment already
    return found | {plain(key_of(segment, text)) for text in texts} if segment else found


def _segment(body: str) -> str:
    found = _SEGMENT.search(body) if '"segment":' in body else None  # most have none
    return _read(found[1]) if found else ""


def _read(text: str) -> str:
    return str(json.loads(f'"{text}"')) if "\\" in text else text


@dataclass(frozen=True)
class Leaving:
    """Texts and arms that leave the log.

    A query is one of them if it has their text or their arm; if it has no arm, also if it has their
    letters: it may have been typed before there was one.
    """

    texts: frozenset[str]  #: as `plain` gives them
    letters: frozenset[str]
    arms: frozenset[int]

    @classmethod
    def of(cls, texts: Iterable[str], arms: Iterable[int]) -> "Leaving":
        """Return what leaves with these texts, which are keys of arms, and with these arms."""
        known = list(texts)
        spelt = {letters_of(text) for text in known if letters(text_of(text))}
        return cls(frozenset(map(plain, known)), frozenset(spelt), frozenset(arms))

    def is_query(self, asked: Asked) -> bool:
        """Whether a typed query leaves."""
        if asked.text in self.texts or asked.arm in self.arms:
            return True
        return asked.arm is None and asked.letters in self.letters

    def in_decision(self, body: str) -> bool:
        """Whether the JSON of a decision has anything that leaves."""
        return bool(self.texts & texts_in(body)) or self.is_query(asked_in(body))

    def without(self, body: DecisionEvent) -> DecisionEvent:
        """Return a decision without it."""

        def leaves(text: str) -> bool:
            keys = {plain(text), plain(key_of(body.segment, text))}
            return bool(self.texts & keys)

        slate = tuple(
            replace(entry, text="") if leaves(entry.text) else entry for entry in body.slate
        )
        own = body.own
        if own is not None and leaves(own.text):
            own = replace(own, text="", vector="")
        if own is not None and leaves(own.after_text):
            own = replace(own, after_text="")
        asked = Asked(body.query, body.anchor_arm, body.segment)
        query = "" if self.is_query(asked) else body.query
        return replace(body, slate=slate, own=own, query=query)
