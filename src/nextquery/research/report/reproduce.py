"""`reproduce`: make every figure and table of the paper, on any log, in one call."""

import os
from pathlib import Path

from nextquery.arms.pool import ArmPool
from nextquery.checks import whole_number
from nextquery.research.replay.cells import Options
from nextquery.research.replay.grid import run_grid
from nextquery.research.replay.players import StreamOptions, check_timed
from nextquery.research.replay.stream import run_stream
from nextquery.research.replay.work import Each, Progress
from nextquery.research.report.report import report
from nextquery.selection.preference import READINGS
from nextquery.sessions import Sessions

ALGORITHMS = ("lin-ucb-published", "lin-ucb", "lin-ts", "most-similar", "random")
SHARED = ("lin-ucb-shared", "lin-ucb-shared@features=arm,prior=none")  # one model for all arms
NAIVE = ("threshold@times_uniform=3", "sampled")


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
    seeds: int = 5,
    zooming: float = 0.5,
    processes: int | None = None,
    each: Each | None = None,
    progress: Progress | None = None,
) -> Path:
    """Run the paper's whole evaluation, write the report, and return the path of the HTML page.

    Parameters
    ----------
    anchors : number of sessions to sample for the protocol `anchored` (100 in the paper).
    rounds : number of rounds T (1000 in the paper).
    stream_sessions : score the protocol `stream` since this many of the newest sessions began; 0
        leaves the stream out.
    encoder : the encoder's name, written to the results.
    seed : draws the anchors, and is the first seed of the policies; the stream has only this one.
    seeds : number of seeds that the policies are averaged over, on the same anchors. (LinTS over
        random candidates and LinUCB with one model for all arms are slow and have one.)
    zooming : similarity threshold of zooming. If most arms are that similar, it selects most of the
        pool: choose a higher one (Table 2 of the report counts the arms).
    processes, each : how to run the cells, as in `run_grid`.
    held_out : number of sessions at the end of the log that the encoder has not seen; anchors are
        drawn only from them. 0 draws from all sessions, which is valid only for an encoder that
        does not learn from sessions.
    """
    if stream_sessions:
        check_timed(sessions)  # before the long part
    grids = paper_grids(
        anchors=anchors,
        rounds=rounds,
        encoder=encoder,
        held_out=held_out,
        seed=seed,
        seeds=seeds,
        zooming=zooming,
    )
    run_grid(pool, sessions, out, grids, progress, processes=processes, each=each)
    if stream_sessions:
        options = StreamOptions(sessions=stream_sessions, seed=seed)
        run_stream(pool, sessions, out, options, progress, processes=processes, each=each)
    return report(out)


def paper_grids(
    *,
    anchors: int,
    rounds: int,
    encoder: str = "",
    held_out: int = 0,
    seed: int = 0,
    seeds: int = 5,
    zooming: float = 0.5,
) -> list[Options]:
    """Return the grids for Figures 2 to 4, the other selections, and the growing set (Algorithm 2).

    >>> grids = paper_grids(anchors=100, rounds=1000, seeds=1)
    >>> len({cell for grid in grids for cell in grid.cells()})
    42
    """
    whole_number(seeds, "seeds", at_least=1)

    def grid(**axes: object) -> Options:
        size = {"anchors": anchors, "rounds": rounds, "held_out": held_out}
        draws = {"seeds": tuple(range(seed, seed + seeds)), "anchor_seed": seed}
        return Options(**{**size, **draws, "encoder": encoder, **axes})  # type: ignore[arg-type]

    published, ours = "lin-ucb-published", "lin-ucb"
    near = "zooming" if zooming == 0.5 else f"zooming@threshold={zooming:g}"
    return [
        grid(policies=ALGORITHMS),
        grid(policies=SHARED, seeds=(seed,)),  # slow: one seed
        grid(selections=("random",), policies=(published, ours, "most-similar", "random")),
        grid(selections=("random",), policies=("lin-ts",), seeds=(seed,)),
        grid(selections=(near, *NAIVE), policies=(published,)),
        grid(k=(10, 100, 250, 500), policies=(published, ours)),
        grid(epsilon=(0.2, 0.4, 0.5, 0.6, 0.9), reading=READINGS, policies=(published,)),
        grid(schedule=("bump",), policies=(published, ours)),
    ]
