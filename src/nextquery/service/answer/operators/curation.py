"""What operators curate: imported queries and pins, checked before anything is written."""

from collections.abc import Sequence

from nextquery.catalogue.catalogue import Catalogue
from nextquery.catalogue.rules import MOST_PINS
from nextquery.errors import InvalidInput
from nextquery.segments import check_segment, segment_of, text_of
from nextquery.service.answer.inputs import check_query
from nextquery.service.log.events import By, Curate, Curated, Pinned, Unpinned, vector_text
from nextquery.service.log.operators import Control
from nextquery.service.log.store import Hashes

MOST_CURATED = 1000  #: queries in one import


def to_curate(
    catalogue: Catalogue,
    hashes: Hashes,
    queries: Sequence[str],
    segment: str,
    by: By,
    model: int | None = None,
) -> Curate:
    """Return the import of those queries that are no arms yet; all of them must be able to be.

    `model` is the position of the model whose pool has the arms.
    """
    name = check_segment(segment)
    if len(queries) > MOST_CURATED:
        raise InvalidInput(
            f"received {len(queries)} queries; at most {MOST_CURATED} may be imported together. "
            "Import them in parts."
        )
    found: dict[str, Curated] = {}
    known: set[str] = set()
    for query in queries:
        place = catalogue.place(check_query(query), name)
        if place.arm is not None:
            known.add(hashes.text(place.text))
            continue
        if not place.may_become_arm:
            raise InvalidInput(
                f"{query[:80]!r} cannot be suggested: it is blocked or was removed, looks private, "
                "or the encoder knows none of its words. Leave it out, or allow it first. Nothing "
                "was written."
            )
        key, row = hashes.text(place.text), vector_text(place.vector)
        found[place.text] = Curated(key, place.text, place.shown, row)
    return Curate(list(found.values()), by, model, known)


def to_pin(
    catalogue: Catalogue, query: str, after: str | None, segment: str, by: By | None
) -> Control:
    """Return the change that pins an arm after a query, or with None after every query."""
    name = check_segment(segment)
    place = catalogue.place(check_query(query), name)
    if place.arm is None:
        raise InvalidInput(
            f"{query[:80]!r} is not a query that can be shown, so it cannot be pinned. Import it "
            "first: nextquery curate, or POST /v1/curated."
        )
    follows = _after(catalogue, after, name)
    if len(catalogue.pins) >= MOST_PINS and (follows, place.text) not in set(catalogue.pins):
        raise InvalidInput(
            f"{len(catalogue.pins)} pins are in force, and at most {MOST_PINS} may be. Remove some."
        )
    return Control(Pinned(place.text, follows, by))


def to_unpin(
    catalogue: Catalogue, query: str, after: str | None, segment: str, by: By | None
) -> Control:
    """Return the change that removes a pin."""
    name = check_segment(segment)
    text, follows = catalogue.place(check_query(query), name).text, _after(catalogue, after, name)
    if (follows, text) not in set(catalogue.pins):
        where = "after this query" if follows else "after every query"
        raise InvalidInput(f"{query[:80]!r} is not pinned {where}. GET /v1/pins lists the pins.")
    return Control(Unpinned(text, follows, by))


def listed_pins(catalogue: Catalogue) -> list[dict[str, str | None]]:
    """Return the pins in force: what is shown, after which query (None: every one), and where."""
    return [
        {"query": text_of(text), "after": text_of(after) or None, "segment": segment_of(text)}
        for after, text in catalogue.pins
    ]


def _after(catalogue: Catalogue, after: str | None, segment: str) -> str:
    """Return the key of the query that something is pinned after; "" for every query."""
    if after is None:
        return ""
    key = catalogue.place(check_query(after, "after"), segment).text
    if not key:
        raise InvalidInput(
            f"nothing is left of {after[:80]!r} after cleaning. Pin after another query, or leave "
            "it out to pin after every query."
        )
    return key
