"""The segment of every row, as a number: queries, sessions and arms are those of one segment."""

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.segments import LONGEST_SEGMENT, check_segment


def number(engine: Engine, column: str | None) -> list[str]:
    """Replace the segments in ``log`` by their numbers; return the names, by number.

    The first is "", and the only one if no column was named.
    """
    if column is None:
        return [""]
    found = engine.rows(
        "SELECT DISTINCT segment FROM log WHERE segment IS NOT NULL AND bad IS NULL"
    )
    raw = sorted(row[0] for row in found)
    try:
        checked = [check_segment(name) for name in raw]
    except InvalidInput:  # its message quotes a cell of the log
        raise InvalidInput(
            f"the column {column!r} has a value that is no segment: it must be a text of at most "
            f"{LONGEST_SEGMENT} characters without control characters. Name another column with "
            "segment=… (--segment NAME), or shorten its values."
        ) from None
    names = sorted({"", *checked})
    engine.run("CREATE TEMP TABLE named (raw VARCHAR, number INTEGER)")
    numbers = np.array([names.index(name) for name in checked], np.int32)
    engine.insert("named", {"raw": np.array(raw, dtype=object), "number": numbers})
    engine.run("UPDATE log SET segment = named.number FROM named WHERE log.segment = named.raw")
    engine.run("UPDATE log SET segment = 0 WHERE segment IS NULL")
    engine.run("DROP TABLE named")
    return names


def only_used(names: list[str], codes: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the names that some arm has, and the numbers of the arms in them; none if all are "".

    >>> only_used(["", "at", "de"], np.array([0, 2, 2]))
    (['', 'de'], array([0, 1, 1], dtype=int32))
    """
    used, numbers = np.unique(codes, return_inverse=True)
    kept = [names[code] for code in used.tolist()]
    if not any(kept):
        return [], np.empty(0, np.int32)
    return kept, numbers.astype(np.int32)
