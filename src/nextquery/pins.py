"""Pins: what is always shown at the top, after one query or after every query.

A pin is chosen by the people who run the service, not by the policy. So it has propensity 1, it is
no candidate, and a slate teaches nothing about it.
"""

from collections.abc import Iterator

from nextquery.segments import segment_of

MOST_PINS = 1000  #: pins in force together


class Pins:
    """Pinned texts by the query that they follow, both as keys (see `nextquery.segments`).

    >>> pins = Pins()
    >>> pins.pin("gift cards"), pins.pin("tea pots", after="tea")
    (None, None)
    >>> pins.after("tea"), pins.after("milk"), pins.after("de\\x1ftea")
    (['tea pots', 'gift cards'], ['gift cards'], [])
    >>> pins.unpin("gift cards"), list(pins)
    (None, [('tea', 'tea pots')])
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[str, ...]] = {}

    def copy(self) -> "Pins":
        """Return an independent copy."""
        twin = Pins()
        twin._of = self._of
        return twin

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield what each pin follows, "" for every query, and what is pinned."""
        for after, texts in list(self._of.items()):
            yield from ((after, text) for text in texts)

    def pin(self, text: str, after: str = "") -> None:
        """Show a text after a query, or after every query of its segment; last pinned, last."""
        known = self._of.get(after, ())
        if text not in known:
            self._of = {**self._of, after: (*known, text)}  # replaced: others may read it

    def unpin(self, text: str, after: str = "") -> None:
        """Remove a pin."""
        left = tuple(one for one in self._of.get(after, ()) if one != text)
        others = {key: texts for key, texts in self._of.items() if key != after}
        self._of = {**others, after: left} if left else others

    def after(self, key: str, segment: str | None = None) -> list[str]:
        """Return what is pinned after a query: its own pins, then those after every query."""
        where = segment_of(key) if segment is None else segment
        found = [*(self._of.get(key, ()) if key else ()), *self._of.get("", ())]
        return [text for text in dict.fromkeys(found) if segment_of(text) == where]
