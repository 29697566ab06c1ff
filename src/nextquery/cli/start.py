"""Commands to start with: demo, recommend, and explore a table by example."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.syntax import Syntax

from nextquery.cli import options as s
from nextquery.cli import output
from nextquery.cli.output import Stages, err, out, print_json, table
from nextquery.cli.serve import built_in_pool, serve_with
from nextquery.errors import InvalidInput

if TYPE_CHECKING:
    import nextquery
    from nextquery.explore import Exploration


_HELP = (
    "Type the numbers of the rows that are relevant, like 1 3. Enter: none of them. "
    "u: take the last answer back. q: stop."
)
_WIDEST = 40  # characters of a value


def explore(
    file: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A CSV, TSV, Parquet or DuckDB file.")
    ],
    table: Annotated[
        str | None, typer.Option(help="The table of a DuckDB file that has more than one.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns for the conditions, like price,city; by default all usable."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep the answers in this file, and continue from it if it exists."),
    ] = None,
    samples: Annotated[int, typer.Option(help="Rows per round.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the rows that are drawn.")] = 0,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Take answers from this CSV file with the columns row and relevant (1 or 0) "
            "instead of asking; rows count from 0."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Do not ask: print the clause and the next rows as JSON."),
    ] = False,
) -> None:
    """Show a few rows of TABLE; mark what is relevant; get the SQL WHERE clause that finds it.

    Each round learns from the marks and chooses the next rows: of parts of the table not seen yet,
    around rows that the decision tree gets wrong, and at the borders of what it calls relevant.
    """
    from nextquery.explore import Exploration, Table

    began = time.perf_counter()
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    opened = Table.open(file, table=table, columns=names)
    if state is not None and state.exists():
        exploration = Exploration.resume(state, opened)
        kept = {"samples": exploration.batch, "seed": exploration.seed}
        given = {"samples": samples, "seed": seed}
        for option, default in (("samples", 10), ("seed", 0)):
            if given[option] not in (default, kept[option]):
                raise InvalidInput(
                    f"--{option} {given[option]}: {state} has {kept[option]}. Leave the option "
                    "out, or pass another --state."
                )
    else:
        exploration = Exploration(opened, samples=samples, seed=seed)
    _report(exploration, file, time.perf_counter() - began)
    if labels is not None:
        exploration.add(_labels_in(labels))
        _save(exploration, state)
    if as_json:
        print_json(_as_json(exploration))
    elif labels is not None:
        _answer(exploration)
    else:
        _ask(exploration, state)


def _report(exploration: "Exploration", file: Path, seconds: float) -> None:
    used = ", ".join(column.name for column in exploration.table.columns)
    err().print(
        f"{file}: {len(exploration.table):,} rows, read in {seconds:.1f} s. Columns: {used}.",
        markup=False,
        soft_wrap=True,
    )
    for name, why in exploration.table.left_out.items():
        err().print(f"not used: {name}, because {why}", markup=False, soft_wrap=True)
    if exploration.labels:
        err().print(f"continued with {exploration.labels:,} labels")


def _labels_in(path: Path) -> dict[int, bool]:
    """Return the labels in a CSV file."""
    import csv

    marks = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    found: dict[int, bool] = {}
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        if not {"row", "relevant"} <= set(reader.fieldnames or ()):
            raise InvalidInput(
                f"{path} has the columns {', '.join(reader.fieldnames or ['(none)'])}. It needs "
                "row and relevant."
            )
        for line in reader:
            row, mark = str(line["row"]).strip(), str(line["relevant"]).strip().lower()
            if not row.isdecimal() or mark not in marks:
                raise InvalidInput(
                    f"{path} line {reader.line_num}: received row {row!r}, relevant {mark!r}. Use "
                    "a row number from 0, and 1 or 0."
                )
            found[int(row)] = marks[mark]
    return found


def _as_json(exploration: "Exploration") -> dict[str, Any]:
    return {
        "where": exploration.where(),
        "sql": exploration.sql(),
        "rows_selected": exploration.count(),
        "rows": len(exploration.table),
        "labels": exploration.labels,
        "relevant": exploration.relevant,
        "left_out": exploration.table.left_out,
        "next": [sample._asdict() for sample in exploration.samples()],
    }


def _ask(exploration: "Exploration", state: Path | None) -> None:
    """Ask round by round until the person stops."""
    err().print(_HELP, markup=False)
    while shown := exploration.samples():
        names = exploration.table.names
        rows = [
            [i, *(_value(sample.values[name]) for name in names), sample.phase]
            for i, sample in enumerate(shown, 1)
        ]
        out().print(table(f"{exploration.labels:,} labels", ["", *names, "why"], rows, numbers=[0]))
        answer = _answered(len(shown))
        if answer is None:
            break
        if isinstance(answer, str):
            if not exploration.undo():
                err().print("there is no answer to take back.")
                continue
        else:
            exploration.label([shown[at - 1].row for at in answer])
        _save(exploration, state)
        _answer(exploration)
    else:
        err().print("every row is labelled.")
    if exploration.labels:
        out().print(exploration.sql(), markup=False, soft_wrap=True)
    if state is not None and exploration.labels:
        err().print(f"kept in {escape(str(state))}; the same command continues.")


def _answered(most: int) -> list[int] | str | None:
    """Return the numbers that were typed, ``undo``, or None to stop."""
    while True:
        print("relevant: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        typed = line.strip().lower().replace(",", " ")
        if not line or typed in ("q", "quit", "exit"):
            return None
        if typed in ("u", "undo"):
            return "undo"
        words = [] if typed in ("", "none") else typed.split()
        if all(word.isdecimal() and 1 <= int(word) <= most for word in words):
            return [int(word) for word in words]
        err().print(f"received {typed!r}. Use numbers from 1 to {most}. {_HELP}", markup=False)


def _answer(exploration: "Exploration") -> None:
    if not exploration.relevant:
        err().print(f"{exploration.labels:,} labels, none relevant yet.")
        return
    out().print(Syntax(exploration.where(), "sql", background_color="default", word_wrap=True))
    err().print(
        f"selects {exploration.count():,} of {len(exploration.table):,} rows; "
        f"{exploration.relevant:,} of {exploration.labels:,} labels are relevant"
    )


def _save(exploration: "Exploration", state: Path | None) -> None:
    if state is not None:
        exploration.save(state)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:,.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def recommend(
    pool_folder: Annotated[Path, typer.Argument(metavar="POOL", help="A pool that ingest wrote.")],
    query: Annotated[str, typer.Argument(help="The current query.")],
    m: Annotated[int, typer.Option("-m", "--many", help="Number of recommendations.")] = 5,
    k: Annotated[int, typer.Option(help="Size of the candidate set.")] = 250,
    epsilon: Annotated[float, typer.Option(help="Similarity threshold of the preference.")] = 0.5,
    reading: Annotated[
        str,
        typer.Option(
            autocompletion=output.readings,
            help="Reading of the preference: example, defined or joint.",
        ),
    ] = "example",
    utility: Annotated[
        str, typer.Option(help="Utility: log-probability, facility-location or log-det.")
    ] = "log-probability",
    segment: Annotated[str, typer.Option(help="Recommend queries of this segment.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recommend the next queries for QUERY, best first.

    Candidates are selected by similarity. A candidate's score grows with how often it followed
    QUERY in the log (0.3 if never); ties go to the higher preference.
    """
    import nextquery as nq

    began = time.perf_counter()
    pool = nq.ArmPool.open(pool_folder)
    selector = nq.MaxUtility(k, epsilon, utility, reading, shortlist=max(1000, k))
    rec = nq.Recommender(pool, selector, nq.LinUCB(model="disjoint"))
    session = rec.start(query, segment=segment)
    loaded = time.perf_counter()
    followed = _followers(pool, pool.find(query, segment))
    for _, arm in followed:
        rec.policy.update(nq.Choice(arm, np.empty(0), 0.0, 1.0), 1.0)
    slate = session.recommend(m)
    took = time.perf_counter() - loaded
    assert session.candidates is not None
    places = {arm: i for i, arm in enumerate(session.candidates.arms.tolist())}
    next_arms = [pair[1] for pair in followed]
    rows = [
        {
            "arm": choice.arm,
            "query": choice.text,
            "similarity": float(session.candidates.similarities[places[choice.arm]]),
            "preference": float(session.candidates.preferences[places[choice.arm]]),
            "score": choice.score,
            "followed": next_arms.count(choice.arm),
        }
        for choice in slate
    ]
    milliseconds = {"load": 1e3 * (loaded - began), "recommend": 1e3 * took}
    if as_json:
        print_json({"query": query, "recommendations": rows, "milliseconds": milliseconds})
        return
    if not rows:
        err().print("no query of the pool matches these options. Try a lower --epsilon.")
    columns = ["next query", "similarity", "preference", "score", "followed it in the log"]
    cells = [[row[name] for name in list(row)[1:]] for row in rows]
    out().print(table(f"after: {query}", columns, cells, numbers=[1, 2, 3, 4]))
    err().print(
        f"{len(pool):,} arms; opened in {milliseconds['load']:.0f} ms, recommended in "
        f"{milliseconds['recommend']:.0f} ms"
    )


def _followers(pool: "nextquery.ArmPool", arm: int | None) -> list[list[int]]:
    """Return (query, next query) for every time the query occurs in the log with a successor."""
    origin = pool.origin
    if arm is None or origin is None:
        return []
    arms, offsets = np.asarray(origin.sessions.arms), np.asarray(origin.sessions.offsets)
    places = np.flatnonzero(arms[:-1] == arm) + 1
    places = places[~np.isin(places, offsets)]  # the first query of another session did not follow
    return [[arm, int(arms[place])] for place in places]


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the pool and what it learns are kept; made if missing.")
    ] = Path("nextquery-demo"),
    port: Annotated[
        str | None, typer.Option(help="The port to listen on; 0 for any free port.")
    ] = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
) -> None:
    """Try nextquery: serve the built-in log, topics, with its page on this machine.

    The first start makes the pool, which takes seconds. Later starts continue with what was
    learnt. To start from the beginning, delete the folder.
    """
    settings = {"store": f"sqlite:///{folder / 'topics.db'}", "port": port}
    loaded = s.load_settings(settings, more=set).settings
    from nextquery.service.server import check_address

    check_address(loaded)  # an error comes before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    with Stages() as stages:
        pool = built_in_pool("topics", folder, stages)
    serve_with({**settings, "pool": str(pool)}, more=set)
