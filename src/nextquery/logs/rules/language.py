"""Sessions in one language: the detector reads every distinct query of the sessions that are left.

Short queries are often the same in many languages ("pizza", "balut vendors"), so a query speaks
against its session only when it has two words at least and the detector clearly prefers another
language.
"""

import importlib
from typing import Any

import numpy as np

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine

#: how much likelier another language must be, from 0 to 1
_CLEARLY = 0.25
#: languages that are told apart; every one of the detector's 75 would cost a gigabyte
_COMPARED = (
    "en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "tr", "id", "ro", "ru", "ar", "zh", "ja",
)  # fmt: skip
_BATCH = 20_000


def detector(language: str) -> tuple[Any, Any]:
    """The detector and the language it should find; refuses unknown codes and a missing extra."""
    try:
        lingua = importlib.import_module("lingua")
    except ImportError:
        raise InvalidInput(
            f"language={language!r} needs the language detector. Install the extra: "
            "pip install 'nextquery[language]', or leave the language out: the ASCII rule remains."
        ) from None
    codes = {known.iso_code_639_1.name.lower(): known for known in lingua.Language.all()}
    if language.lower() not in codes:
        raise InvalidInput(
            f"language must be an ISO 639-1 code, one of {', '.join(sorted(codes))}; "
            f"received {language!r}."
        )
    compared = {codes[code] for code in (*_COMPARED, language.lower())}
    builder = lingua.LanguageDetectorBuilder.from_languages(*compared)
    return builder.with_minimum_relative_distance(_CLEARLY).build(), codes[language.lower()]


def drop_foreign(engine: Engine, found: tuple[Any, Any]) -> int:
    """Remove the sessions of ``kept`` that hold a query in another language; how many rows went."""
    guess, wanted = found
    total = "SELECT count(*) FROM steps SEMI JOIN kept USING (visit)"
    before = engine.value(total)
    engine.run("CREATE TABLE foreigners (tid BIGINT)")
    engine.run(
        "CREATE TABLE asked AS SELECT tid, text FROM texts SEMI JOIN "
        "(SELECT tid FROM steps SEMI JOIN kept USING (visit)) USING (tid) WHERE contains(text, ' ')"
    )
    low, high = 0, engine.value("SELECT count(*) FROM asked")
    while low < high:
        rows = engine.rows(
            f"SELECT tid, text FROM asked WHERE rowid >= {low} AND rowid < {low + _BATCH}"
        )
        languages = guess.detect_languages_in_parallel_of([text for _, text in rows])
        foreign = [
            tid
            for (tid, _), language in zip(rows, languages, strict=True)
            if language not in (None, wanted)
        ]
        engine.insert("foreigners", {"tid": np.array(foreign, np.int64)})
        low += _BATCH
        engine.report(min(low / high, 1.0))
    engine.run(
        "DELETE FROM kept WHERE visit IN (SELECT visit FROM steps SEMI JOIN foreigners USING (tid))"
    )
    engine.run("DROP TABLE asked")
    engine.run("DROP TABLE foreigners")
    return int(before - engine.value(total))
