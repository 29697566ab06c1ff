"""The formats of an export: one table for the command, the route and the documentation."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple

from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import InvalidInput
from nextquery.service.log.exchange.obp import obp_pages
from nextquery.service.log.exchange.session_files import gru4rec_pages, hred_pages
from nextquery.service.log.exchange.vw import vw_pages
from nextquery.service.log.export import ubi_lines
from nextquery.service.log.export_parquet import parquet_pages
from nextquery.service.log.store import Store

_LINES = 64  # lines that are written together


class Format(NamedTuple):
    """How to write a format, step by step; `file` is the name of a download."""

    about: str
    file: str
    media_type: str
    pages: Callable[[Store, BinaryIO], Iterator[None]] | None  #: None: needs the pool


def _ubi_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    lines = ubi_lines(store)
    while group := b"".join(islice(lines, _LINES)):
        sink.write(group)
        yield


FORMATS = {
    "ubi": Format(
        "UBI 1.3, JSON Lines: a query per decision, impressions, clicks",
        "nextquery.ubi.jsonl",
        "application/x-ndjson",
        _ubi_pages,
    ),
    "parquet": Format(
        "one row per entry of a slate",
        "nextquery.parquet",
        "application/vnd.apache.parquet",
        parquet_pages,
    ),
    "obp": Format(
        "Open Bandit Pipeline's bandit_feedback, needs --pool",
        "nextquery.obp.npz",
        "application/octet-stream",
        None,
    ),
    "vw": Format(
        "VowpalWabbit, cb_explore_adf with propensities",
        "nextquery.vw.txt",
        "text/plain; charset=utf-8",
        vw_pages,
    ),
    "gru4rec": Format(
        "GRU4Rec's table of sessions of arms",
        "nextquery.gru4rec.tsv",
        "text/tab-separated-values; charset=utf-8",
        gru4rec_pages,
    ),
    "hred": Format(
        "HRED's sessions, one per line, with the texts of queries",
        "nextquery.hred.txt",
        "text/plain; charset=utf-8",
        hred_pages,
    ),
}


def export_pages(
    name: str, store: Store, sink: BinaryIO, catalogue: Catalogue | None = None
) -> Iterator[None]:
    """Write a format of `FORMATS` step by step, so that a caller can do other things in between."""
    pages = FORMATS[name].pages
    if pages is not None:
        return pages(store, sink)
    if catalogue is None:
        raise InvalidInput(
            f"the format {name} has the vectors of queries, which are not in the store. Pass the "
            "pool: --pool POOL."
        )
    return obp_pages(store, sink, catalogue)
