"""Keep sessions in one language by running a detector on every distinct query of the kept sessions.

Short queries are often the same in many languages ("pizza", "balut vendors"). So a query removes
its session only if it has at least two words and the detector clearly prefers another language.
"""

import importlib
from typing import Any

import numpy as np

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine

#: how much more likely another language must be, from 0 to 1
_MARGIN = 0.25
#: languages to distinguish; all 75 of the detector would need a gigabyte
_COMPARED = (
    "en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "tr", "id", "ro", "ru", "ar", "zh", "ja",
)  # fmt: skip
_BATCH = 20_000


def detector(language: str) -> tuple[Any, Any]:
    """Return the detector and the expected language.

    Raises an error if the code is unknown or the extra is not installed.
    """
    try:
        lingua = importlib.import_module("lingua")
    except ImportError:
        raise InvalidInput(
            f"language={language!r} needs the language detector. Install the extra: "
            "pip install 'nextquery[language]', or omit the language: the ASCII rule still applies."
        ) from None
    codes = {known.iso_code_639_1.name.lower(): known for known in lingua.Language.all()}
    if language.lower() not in codes:
        raise InvalidInput(
            f"language must be an ISO 639-1 code, one of {', '.join(sorted(codes))}; "
            f"received {language!r}."
        )
    compared = {codes[code] for code in (*_COMPARED, language.lower())}
    builder = lingua.LanguageDetectorBuilder.from_languages(*compared)
    return builder.with_minimum_relative_distance(_MARGIN).build(), codes[language.lower()]


def drop_foreign(engine: Engine, detector: tuple[Any, Any]) -> int:
    """Drop sessions in ``kept`` with a query in another language; return their number of rows."""
    model, expected = detector
    total = "SELECT count(*) FROM steps SEMI JOIN kept USING (visit)"
    before = engine.value(total)
    engine.run("CREATE TABLE foreign_texts (tid BIGINT)")
    engine.run(
        "CREATE TABLE to_detect AS SELECT tid, text FROM texts SEMI JOIN "
        "(SELECT tid FROM steps SEMI JOIN kept USING (visit)) USING (tid) WHERE contains(text, ' ')"
    )
    low, high = 0, engine.value("SELECT count(*) FROM to_detect")
    while low < high:
        rows = engine.rows(
            f"SELECT tid, text FROM to_detect WHERE rowid >= {low} AND rowid < {low + _BATCH}"
        )
        languages = model.detect_languages_in_parallel_of([text for _, text in rows])
        foreign = [
            tid
            for (tid, _), language in zip(rows, languages, strict=True)
            if language not in (None, expected)
        ]
        engine.insert("foreign_texts", {"tid": np.array(foreign, np.int64)})
        low += _BATCH
        engine.report(min(low / high, 1.0))
    engine.run(
        "DELETE FROM kept "
        "WHERE visit IN (SELECT visit FROM steps SEMI JOIN foreign_texts USING (tid))"
    )
    engine.run("DROP TABLE to_detect")
    engine.run("DROP TABLE foreign_texts")
    return int(before - engine.value(total))
