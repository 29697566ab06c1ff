"""Turn a raw log into clean sessions without private text, stage by stage.

::

    read      files → log            one row per line
    clean     log → spellings        rules, once per distinct spelling; private ones are marked
    sessions  log → steps, kept      split into sessions; check languages, repeats and lengths
    privacy   steps → arms, final    which texts may be arms; what remains of the sessions
    collect   → Prepared             arrays and texts, in an order that does not depend on threads

Every row has the number of its segment: queries, sessions and arms belong to one segment. Whole
sessions in another language are removed before any rule drops the queries that show it.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import datasets
from nextquery.errors import InvalidInput
from nextquery.logs import files, merge, privacy, read, sessions
from nextquery.logs.cleaning import cleaning
from nextquery.logs.database import LogDatabase, Progress, opened
from nextquery.logs.language import LanguageJudge
from nextquery.logs.merge import (
    PersonHash,
    Prepared,
    Remember,
    RowsRead,
    add_hidden,
    join,
    ledger,
    passing,
    take_hidden,
)
from nextquery.logs.options import LogOptions
from nextquery.logs.report import Privacy, Report
from nextquery.segments import LONGEST_SEGMENT, check_segment
from nextquery.sessions import NO_PEOPLE, UNTIMED, Sessions

_BATCH = 10_000  # sessions
_QUERIES = 100  # of a session that are read: more would not change the verdict


def drop(engine: LogDatabase, options: LogOptions, *, rows_before: int | None = None) -> int:
    """Delete the rows of foreign sessions from ``placed`` and return how many there were.

    The judge sees each different query once, as it was typed (with escapes decoded and links
    removed), in order. Sessions with too few rows to be kept are left to `session-length`.

    With `rows_before`, the first rows are those of earlier days: sessions without later rows are
    not judged again. ``foreign_rows(pos)`` has the rows of those that were foreign, and gets the
    others.
    """
    if options.expected_language is None:
        return 0
    judge = LanguageJudge(options.expected_language)
    least = 1 if "session-length" in options.skip else options.min_queries
    judged = f"HAVING count(*) >= {least} AND max(pos) >= {rows_before or 0}"
    engine.run(
        "CREATE TABLE spoken AS SELECT visit, "
        f"list(shown ORDER BY first, sid)[1:{_QUERIES}] AS queries FROM "
        "(SELECT visit, sid, min(pos) AS first FROM placed "
        f"SEMI JOIN (SELECT visit FROM placed GROUP BY visit {judged}) "
        "USING (visit) GROUP BY visit, sid) JOIN spellings ON spellings.rowid = sid "
        "WHERE shown <> '' GROUP BY visit"
    )
    engine.run("CREATE TABLE foreign_visits (visit BIGINT)")
    low, high = 0, engine.value("SELECT count(*) FROM spoken")
    while low < high:
        rows = engine.rows(
            f"SELECT visit, queries FROM spoken WHERE rowid >= {low} AND rowid < {low + _BATCH}"
        )
        foreign = [visit for visit, queries in rows if judge.foreign(queries)]
        engine.insert("foreign_visits", {"visit": np.array(foreign, np.int64)})
        low += _BATCH
        engine.report(min(low / high, 1.0))
    engine.run("DROP TABLE spoken")
    if rows_before is not None:
        was = "SELECT visit FROM placed SEMI JOIN foreign_rows USING (pos)"
        engine.run(f"INSERT INTO foreign_visits {was}")
        engine.run(
            "CREATE OR REPLACE TABLE foreign_rows AS SELECT pos FROM placed "
            "WHERE visit IN (SELECT visit FROM foreign_visits)"
        )
    before = engine.value("SELECT count(*) FROM placed")
    engine.run("DELETE FROM placed WHERE visit IN (SELECT visit FROM foreign_visits)")
    engine.run("DROP TABLE foreign_visits")
    return int(before - engine.value("SELECT count(*) FROM placed"))


def number(engine: LogDatabase, column: str | None) -> list[str]:
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


STAGES = ("read", "clean", "sessions", "privacy", "collect")

Log = str | os.PathLike[str] | Iterable[Any]


def prepare(
    log: Log,
    options: LogOptions | None = None,
    *,
    workdir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    person_hash: PersonHash | None = None,
    people_required: bool = True,
    remember: Remember | None = None,
    exempt: Sequence[str] | None = None,
) -> Prepared:
    """Read, clean and protect a log, with bounded memory.

    Parameters
    ----------
    log : a path, a glob, or a list of either; ir_datasets records (``format="ir_datasets"``), or
        the name of an ir_datasets data set (``"irds:aol-ia"``).
    options : see `LogOptions`; None takes the defaults for this log.
    workdir : where DuckDB may spill; cleaned up afterwards. Default: the system's temporary folder.
    progress : called with the stage (one of `STAGES`) and the fraction done, None at its start.
    person_hash : keep whose session each one was, as this hash of the user id.
    people_required : whether a log without users is then an error.
    remember : keep a ledger of the log, and prepare it together with the rows of an earlier ledger.
    exempt : texts that are arms already, so that no number of users is needed.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("session,query\\n1,Tea\\n1,tea!\\n1,Cup\\n1,Pot\\n")
    >>> prepared = prepare(file, LogOptions(min_queries=3))
    >>> prepared.texts, prepared.shown, prepared.sessions.arms.tolist()
    (['tea', 'cup', 'pot'], ['Tea', 'Cup', 'Pot'], [0, 1, 2])
    """
    options = options or LogOptions.of(log)
    with _engine(options, workdir, progress) as engine:
        facts = _sessions(engine, log, options, private=True, remember=remember)
        if not engine.value("SELECT count(*) FROM kept"):
            raise _no_sessions(facts.report)
        if not facts.by_user and not people_required:
            person_hash = None
        if person_hash is not None and not facts.by_user:
            raise InvalidInput(
                "personal needs to know whose each query is, and this log has no users. Name the "
                "column with --user, or leave out --personal."
            )
        if exempt is not None:
            engine.run("CREATE TABLE exempt (text VARCHAR)")
            if len(exempt):
                engine.insert("exempt", {"text": np.array(exempt, object)})
        if remember is not None and person_hash is not None:
            person_hash = remember.person_hash(person_hash)
        return _protect(engine, options, facts, person_hash, remember, exempt is not None)


def stats_of(
    log: Log,
    options: LogOptions | None = None,
    *,
    workdir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return Table 3 of a log and what each rule removes, without privacy or arms."""
    options = options or LogOptions.of(log)
    with _engine(options, workdir, progress) as engine:
        return _sessions(engine, log, options, private=False).report


def _engine(
    options: LogOptions, workdir: str | os.PathLike[str] | None, progress: Progress | None
) -> Any:
    return opened(
        memory_limit=options.memory_limit,
        workdir=workdir,
        threads=options.threads,
        progress=progress,
    )


@dataclass(frozen=True)
class _Facts:
    report: Report
    by_user: bool
    timed: bool
    segments: list[str]  # names, by number
    rows: RowsRead


def _sessions(
    engine: LogDatabase,
    log: Log,
    options: LogOptions,
    *,
    private: bool,
    remember: Remember | None = None,
) -> _Facts:
    engine.stage("read")
    read.create(engine)
    sources = _read(engine, log, options)
    sessions.clear_placeholder_users(engine)
    faults = read.finish(engine, sources)
    read_ = "SELECT count(*), min(secs), max(secs) FROM log WHERE bad IS NULL"
    rows = RowsRead(*engine.rows(read_)[0])
    if remember is not None:
        join(engine, remember)
    by_user = bool(engine.value("SELECT count(person) FROM log WHERE bad IS NULL"))
    timed = bool(engine.value("SELECT count(secs) FROM log WHERE bad IS NULL"))
    engine.stage("clean")
    names = number(engine, options.segment)
    segmented = len(names) > 1
    _clean(engine, options, private=private, segmented=segmented, remember=remember)
    engine.stage("sessions")
    original = engine.value("SELECT count(*) FROM log WHERE bad IS NULL")
    sessions.place(engine, options, by_user=by_user, segmented=segmented)
    rows_before = None if remember is None else remember.rows_before
    by_language = drop(engine, options, rows_before=rows_before)
    removed = sessions.keep(engine, options)
    if options.expected_language is not None:
        removed["language"] = by_language
    report = Report(
        original=original,
        queries=sessions.queries(engine),
        sessions=engine.value("SELECT count(*) FROM kept"),
        distinct=engine.value("SELECT count(DISTINCT tid) FROM steps SEMI JOIN kept USING (visit)"),
        removed=removed,
        malformed=faults,
        options=options,
        log=datasets.name_of(log),
        columns=sorted(frozenset().union(*(source.roles for source in sources))),
    )
    return _Facts(report, by_user, timed, names, rows)


def _read(engine: LogDatabase, log: Log, options: LogOptions) -> list[read.Source]:
    if isinstance(log, str) and log.startswith(read.PREFIX):
        return [read.insert_records(engine, read.load(log.removeprefix(read.PREFIX)), log)]
    if options.format == "ir_datasets":
        return [read.insert_records(engine, log, "the records")]  # type: ignore[arg-type]
    paths = files.files_of(log)
    sources = [read.read_file(engine, file, options, i) for i, file in enumerate(paths)]
    if any(engine.rows("SELECT 1 FROM log WHERE bad = 'event' LIMIT 1")):
        read.link(engine)
    return sources


def _clean(
    engine: LogDatabase,
    options: LogOptions,
    *,
    private: bool,
    segmented: bool,
    remember: Remember | None = None,
) -> None:
    """Make ``texts(tid, text, segment)`` and ``spellings(raw, n, shown, text, dropped, …, tid)``.

    With segments, a spelling has a row for each that it occurs in, and so does a text.
    """
    engine.run(
        "CREATE TABLE distinct_raw AS SELECT raw, count(*) AS n FROM log "
        "WHERE bad IS NULL GROUP BY raw"
    )
    if remember is not None:
        take_hidden(engine)
    cleaned = cleaning("distinct_raw", **options.cleaning())
    engine.run(
        "CREATE TABLE spellings AS SELECT *, NULL::VARCHAR AS why, false AS wide, "
        f"false AS private FROM ({cleaned})"
    )
    engine.run("DROP TABLE distinct_raw")
    if private:
        privacy.mark(engine, options)
    if remember is not None:
        add_hidden(engine, remember)
    spelt = "(SELECT *, 0 AS segment FROM spellings)"
    if segmented:
        engine.run(
            "CREATE TABLE spelt AS SELECT s.* REPLACE (l.n AS n), l.segment FROM spellings s JOIN "
            "(SELECT raw, segment::INTEGER AS segment, count(*) AS n FROM log WHERE bad IS NULL "
            "GROUP BY ALL) l USING (raw)"
        )
        spelt = "spelt"
    engine.run(
        "CREATE TABLE texts AS SELECT row_number() OVER () AS tid, text, segment FROM "
        f"(SELECT DISTINCT text, segment FROM {spelt} WHERE dropped IS NULL)"
    )
    engine.run(
        f"CREATE TABLE known AS SELECT s.*, t.tid FROM {spelt} s LEFT JOIN texts t "
        "ON t.text = s.text AND t.segment = s.segment AND s.dropped IS NULL"
    )
    engine.run("DROP TABLE IF EXISTS spelt")
    engine.run("DROP TABLE spellings")
    engine.run("ALTER TABLE known RENAME TO spellings")


def _protect(
    engine: LogDatabase,
    options: LogOptions,
    facts: _Facts,
    person_hash: PersonHash | None,
    remember: Remember | None,
    exempt: bool,
) -> Prepared:
    engine.stage("privacy")
    min_users = options.min_users or (2 if facts.by_user else 1)
    k_anonymous = facts.by_user and min_users >= 2
    by_user = facts.by_user
    privacy.gates(engine, options, min_users=min_users, by_user=by_user, exempt=exempt)
    if remember is not None:
        passing(engine, min_users if min_users > 1 else 0)
    privacy.clear(engine)
    merged, orphaned = privacy.finish_sessions(engine, options)
    engine.stage("collect")
    arms = merge.arms(engine, timed=facts.timed)
    steps = merge.steps(engine)
    costs = Privacy(
        min_users=min_users,
        k_anonymous=k_anonymous,
        arms_before=facts.report.distinct,
        gates=tuple(privacy.counted(engine, min_users, by_user=facts.by_user)),
        merged=merged,
        orphaned=orphaned,
        arms=len(arms["text"]),
        queries=len(steps["arm"]),
        sessions=int(steps["first"].sum()),
    )
    report = replace(facts.report, privacy=costs)
    names_of_segments, codes = only_used(facts.segments, arms["segment"])
    starts = np.flatnonzero(steps["first"])
    times = steps["start"][starts] if facts.timed else np.full(len(starts), np.nan)
    names: list[str] = []
    people = NO_PEOPLE
    if person_hash is not None:
        names, people = merge.people(engine, steps["who"][starts], person_hash)
    return Prepared(
        texts=arms["text"].tolist(),
        shown=arms["shown"].tolist(),
        session_counts=arms["sessions"].astype(np.int64),
        user_counts=arms["users"].astype(np.int64),
        sessions=Sessions(
            steps["arm"].astype(np.int64),
            np.append(starts, len(steps["arm"])).astype(np.int64),
            np.asarray(times, np.float64),
            np.asarray(steps["asked"], np.float64) if facts.timed else UNTIMED,
            people,
        ),
        k_anonymous=k_anonymous,
        report=report,
        hits=arms["hits"].astype(np.int64) if (arms["hits"] >= 0).any() else merge.NO_HITS,
        people=names,
        segments=codes,
        segment_names=names_of_segments,
        rows=facts.rows,
        ledger=None if remember is None else ledger(engine, remember, person_hash),
    )


def _no_sessions(report: Report) -> InvalidInput:
    worst = max(report.removed, key=lambda name: report.removed[name], default="")
    options = {rule["name"]: rule["option"] for rule in report.rules()}
    return InvalidInput(
        f"no sessions remain of {report.original:,} rows. The rule {worst!r} removed most of them "
        f"({report.removed.get(worst, 0):,}). Change it with {options.get(worst, '')}, "
        "or use a longer log."
    )
