"""Replay: the paper's experiments on past sessions, and the report on them."""

from nextquery.replay.cells import Options
from nextquery.replay.compare.comparison import run_comparison
from nextquery.replay.compare.options import CompareOptions
from nextquery.replay.grid import run_grid
from nextquery.replay.reporting.report import report
from nextquery.replay.reproduce import reproduce
from nextquery.replay.sessions import sessions_of
from nextquery.replay.stream.options import StreamOptions
from nextquery.replay.stream_results import run_stream
from nextquery.sessions import Sessions

__all__ = [
    "CompareOptions",
    "Options",
    "Sessions",
    "StreamOptions",
    "report",
    "reproduce",
    "run_comparison",
    "run_grid",
    "run_stream",
    "sessions_of",
]
