"""`nextquery recommend`: recommend next queries for one query."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from nextquery.cli import complete
from nextquery.cli.output import err, out, print_json, table

if TYPE_CHECKING:
    import nextquery


def recommend(
    pool_folder: Annotated[Path, typer.Argument(metavar="POOL", help="A pool that ingest wrote.")],
    query: Annotated[str, typer.Argument(help="The current query.")],
    m: Annotated[int, typer.Option("-m", "--many", help="Number of recommendations.")] = 5,
    k: Annotated[int, typer.Option(help="Size of the candidate set.")] = 250,
    epsilon: Annotated[float, typer.Option(help="Similarity threshold of the preference.")] = 0.5,
    reading: Annotated[
        str,
        typer.Option(
            autocompletion=complete.readings,
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
