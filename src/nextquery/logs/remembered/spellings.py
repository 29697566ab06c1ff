"""The spellings of a ledger join the cleaned spellings of new days."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from nextquery.logs.database import Engine
from nextquery.logs.remembered.join import HIDDEN, Remember, is_hidden
from nextquery.logs.remembered.keys import Keys
from nextquery.logs.remembered.ledger import Ledger

_COLUMNS = (
    "raw VARCHAR, n BIGINT, shown VARCHAR, text VARCHAR, dropped VARCHAR, why VARCHAR, "
    "wide BOOLEAN, private BOOLEAN"
)


def take_hidden(engine: Engine) -> None:
    """Move the spellings that are only known as hashes from ``distinct_raw`` to ``hidden_raw``."""
    engine.run(f"CREATE TABLE hidden_raw AS SELECT * FROM distinct_raw WHERE {is_hidden('raw')}")
    engine.run(f"DELETE FROM distinct_raw WHERE {is_hidden('raw')}")


def add_hidden(engine: Engine, remember: Remember) -> None:
    """Add them to ``spellings`` with what was found out about them when they could be read.

    A text that the new days, the arms or the ledger have in words is recognised by its hash.
    """
    before = remember.before
    hidden = engine.rows("SELECT raw, n FROM hidden_raw")
    engine.run("DROP TABLE hidden_raw")
    if before is None or not hidden:
        return
    distinct = engine.rows("SELECT DISTINCT text FROM spellings WHERE dropped IS NULL")
    known = chain((row[0] for row in distinct), remember.texts, before.waiting)
    words = _in_words(before, known, remember.keys)
    number = {row.tobytes(): at for at, row in enumerate(before.spellings)}
    at = [number[bytes.fromhex(raw.removeprefix(HIDDEN))] for raw, _ in hidden]
    texts = [_text(before, spelling, words) for spelling in at]
    shown = [
        _shown(before, spelling, text, remember.keys)
        for spelling, text in zip(at, texts, strict=True)
    ]
    why = before.spelling_why[at].astype(object)
    dropped = before.spelling_dropped[at].astype(object)
    why[why == ""], dropped[dropped == ""] = None, None
    engine.run(f"CREATE TABLE hidden_spellings ({_COLUMNS})")
    columns = {
        "raw": np.array([raw for raw, _ in hidden], object),
        "n": np.array([n for _, n in hidden], np.int64),
        "shown": np.array(shown, object),
        "text": np.array(texts, object),
        "dropped": dropped,
        "why": why,
        "wide": before.spelling_wide[at],
        "private": before.spelling_why[at] != "",
    }
    engine.insert("hidden_spellings", columns)
    engine.run("INSERT INTO spellings BY NAME SELECT * FROM hidden_spellings")
    engine.run("DROP TABLE hidden_spellings")


def _in_words(before: Ledger, known: Iterable[str], keys: Keys) -> list[str]:
    """Return the texts of the ledger: in words if they are among the known ones."""
    words = {keys.of("text", text): text for text in known}
    rows = (row.tobytes() for row in before.texts)
    return [words.get(row) or HIDDEN + row.hex() for row in rows]


def _text(before: Ledger, spelling: int, words: list[str]) -> str:
    number = int(before.spelling_text[spelling])
    return "" if number < 0 else words[number]


def _shown(before: Ledger, spelling: int, text: str, keys: Keys) -> str:
    locked = before.locked[spelling]
    if not locked or text.startswith(HIDDEN):
        return ""
    return keys.unlock(text, before.spellings[spelling].tobytes(), locked)
