"""`reproduce`: make every figure and table of the paper, on any log, in one call."""

import os
from pathlib import Path

from nextquery.arms.pool import ArmPool
from nextquery.replay.cells import Options
from nextquery.replay.grid import run_grid
from nextquery.replay.reporting.report import report
from nextquery.replay.runners import Each
from nextquery.replay.stream.protocol import StreamOptions
from nextquery.replay.stream_results import run_stream
from nextquery.replay.work import Progress
from nextquery.sessions import Sessions

ALGORITHMS = (
    *("lin-ucb-published", "lin-ucb", "lin-ucb-shared"),
    *("lin-ts", "most-similar", "random"),
)


def reproduce(
    pool: ArmPool,
    sessions: Sessions,
    out: str | os.PathLike[str],
    *,
    anchors: int = 300,
    rounds: int = 1000,
    stream_sessions: int = 500,
    encoder: str = "",
    held_out: int = 0,
    seed: int = 0,
    processes: int | None = None,
    each: Each | None = None,
    progress: Progress | None = None,
) -> Path:
    """Run the paper's whole evaluation, write the report, and return the path of the HTML page.

    Parameters
    ----------
    anchors : number of sessions to sample for the protocol `anchored` (100 in the paper).
    rounds : number of rounds T (1000 in the paper).
    stream_sessions : number of sessions at the end of the log to score in the protocol `stream`;
        0 skips the stream.
    encoder : the encoder's name, written to the results.
    processes, each : how to run the cells, as in `run_grid`.
    held_out : number of sessions at the end of the log that the encoder has not seen; anchors are
        drawn only from them. 0 draws from all sessions, which is valid only for an encoder that
        does not learn from sessions.
    """
    common = {"anchors": anchors, "rounds": rounds, "held_out": held_out}
    grids = paper_grids(**common, encoder=encoder, seed=seed)
    run_grid(pool, sessions, out, grids, progress, processes=processes, each=each)
    if stream_sessions:
        options = StreamOptions(sessions=stream_sessions, seed=seed)
        run_stream(pool, sessions, out, options, progress, processes=processes, each=each)
    return report(out)


def paper_grids(
    *, anchors: int, rounds: int, encoder: str = "", held_out: int = 0, seed: int = 0
) -> list[Options]:
    """Return the grids for Figures 2, 3 and 4, and for the growing set of Algorithm 2.

    >>> len({cell for grid in paper_grids(anchors=100, rounds=1000) for cell in grid.cells()})
    34
    """

    def grid(**axes: object) -> Options:
        size = {"anchors": anchors, "rounds": rounds, "held_out": held_out}
        common = {**size, "encoder": encoder, "seeds": (seed,)}
        return Options(**{**common, **axes})  # type: ignore[arg-type]

    published, ours = "lin-ucb-published", "lin-ucb"
    readings = ("example", "defined", "joint")
    return [
        grid(selections=("max-utility", "random"), policies=ALGORITHMS),
        grid(selections=("zooming",), policies=(published,)),
        grid(k=(10, 100, 250, 500), policies=(published, ours)),
        grid(epsilon=(0.2, 0.4, 0.5, 0.6, 0.9), reading=readings, policies=(published,)),
        grid(schedule=("bump",), policies=(ours,)),
    ]
