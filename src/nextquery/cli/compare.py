"""`nextquery compare`: every recommender on your log, what each costs, and which to use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import complete
from nextquery.cli import log_options as o
from nextquery.cli.log_options import AsJson
from nextquery.cli.output import Stages, err, out, print_json, table
from nextquery.cli.replay import Processes, Run, held_out_of, progress_of
from nextquery.cli.reproduce import pool_of

HITS, COSTS = range(1, 6), range(6, 10)
"""The columns of the two tables, since one would be too wide for a terminal."""

if TYPE_CHECKING:
    from nextquery.arms import ArmPool
    from nextquery.research.replay import CompareOptions
    from nextquery.sessions import Sessions


def compare(
    log: Annotated[
        str,
        typer.Argument(
            help="A log, a pool that ingest wrote (with options of its own), or a built-in log: "
            "topics or core."
        ),
    ],
    to: Run,
    sessions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Score the answers since the last so many sessions began; by default 1,000, or a "
            "quarter of the sessions of two or more queries if they are fewer than 4,000.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Score since a date instead, like 2018-01-01.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Leave out what is dated at this date or later.")
    ] = None,
    policy: Annotated[
        list[str],
        typer.Option(
            autocompletion=complete.policies,
            help="What to compare, by name, as in replay; all by default. The served default is "
            "always there. Repeatable.",
        ),
    ] = [],  # noqa: B006  (typer only reads it)
    model: Annotated[
        list[Path],
        typer.Option(
            help="The folder of a model that `nextquery train POOL --method gru4rec --until DATE` "
            "wrote; it joins the others. Repeatable."
        ),
    ] = [],  # noqa: B006
    tune: Annotated[
        bool,
        typer.Option(help="Tune stan and vstan on the sessions before those that are scored."),
    ] = True,
    returns: Annotated[
        bool, typer.Option("--returns", help="Allow recommending a session's earlier queries.")
    ] = False,
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    time_format: o.TimeFormat = None,
    query: o.Query = None,
    encoder: Annotated[str, typer.Option(help="As in ingest. A pool keeps its own.")] = "auto",
    hold_out: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Newest sessions of two or more queries to hide from the encoder of a log; by "
            "default twice --sessions, since as many before them are for tuning.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random draw.")] = 0,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Compare every recommender on a log by the clock, and say which to use.

    At each step only what is dated before its query is known. The results go to compare.csv and
    compare.md in --out. To resume an interrupted run, run the same command again.
    """
    from nextquery.arms import ArmPool
    from nextquery.research import replay
    from nextquery.research.replay.compare import (
        COMPARED,
        MOST,
        TUNING_FILE,
        compare_table,
        read_compared,
        tuned_note,
        verdict,
        window_for,
    )
    from nextquery.research.replay.results import read_rows
    from nextquery.research.report.tables import stream_note

    options = replay.CompareOptions(
        sessions=MOST if sessions is None else sessions,
        tuning_sessions=MOST if sessions is None else sessions,
        since=since,
        until=until,
        recommenders=policy or COMPARED,
        models=model,
        tune=tune,
        returns=returns,
        seed=seed,
    )
    with Stages() as stages:
        hidden = options.sessions + options.tuning_sessions if hold_out is None else hold_out
        columns = {"session": session, "user": user, "time": time, "query": query}
        columns["time_format"] = time_format
        pool = ArmPool.open(pool_of(log, to, encoder, hidden, {}, stages, columns))
        past = replay.sessions_of(pool)
        if sessions is None:
            options = options.of_length(window_for(past))
        if note := saw_answers(pool, past, options):
            err().print(note, markup=False, soft_wrap=True)
        page = replay.run_comparison(
            pool, past, to, options, progress_of(stages), processes=processes
        )
    rows, tuned = read_compared(to), read_rows(to / TUNING_FILE)
    if as_json:
        print_json({"use": verdict(rows), "rows": rows, "tuning": tuned, "page": str(page)})
        return
    made = compare_table(rows)
    for title, shown in (("By the clock", HITS), ("What it costs", COSTS)):
        cells = [[row[0], *(row[at] for at in shown)] for row in made.rows]
        header = [made.header[0], *(made.header[at] for at in shown)]
        out().print(table(title, header, cells, numbers=range(1, len(header))))
    for line in (stream_note(to), tuned_note(tuned), f"written: {page}", verdict(rows)):
        if line:
            out().print(line, markup=False, soft_wrap=True)


def saw_answers(pool: "ArmPool", past: "Sessions", options: "CompareOptions") -> str:
    """Return a note if the pool's encoder was fitted on sessions that began in the window."""
    import numpy as np

    from nextquery.research.replay.compare import started, window_for

    if pool.encoder is None:
        return ""
    start, hidden = started(pool, past, options).start, held_out_of(pool)
    newest = np.sort(past.times)[len(past.times) - hidden :]
    begun = past.times[past.lengths > 1]
    needed = int((begun >= start).sum())
    hidden_since = newest[0] if hidden else np.inf
    fitted = int(((begun >= start) & (begun < hidden_since)).sum())
    if not fitted:
        return ""
    wanted = needed + options.tuning_sessions
    advice = (
        f"Make the pool with --hold-out {wanted} or more."
        if wanted <= len(begun) // 2  # ingest hides at most half
        else f"Score fewer sessions, such as --sessions {window_for(past)}."
    )
    return (
        f"note: the encoder was fitted on {fitted:,} of the {needed:,} sessions since the "
        f"first step that is scored, so similar queries look better than they would have then. "
        f"{advice}"
    )
