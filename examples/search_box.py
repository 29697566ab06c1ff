"""A search box with recommendations: what a search team adds to its own code.

Runs by itself: starts a service on a pool (or uses the one at --url) and plays a few visits.

    python examples/search_box.py --pool pools/topics
"""

import argparse
import tempfile
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

import nextquery as nq
from nextquery.client import Slate
from nextquery.errors import NextqueryError
from nextquery.service.process import ServiceProcess


class SearchBox:
    """One visit to a search page."""

    def __init__(self, client: nq.Client, user_id: str | None = None) -> None:
        self.client, self.user_id = client, user_id
        self.session_id = uuid.uuid4().hex
        self.slate: Slate | None = None

    def search(self, query: str) -> list[str]:
        """Return what to show under the box after the visitor typed or clicked a query."""
        self._learn(query)
        # ... here your search engine answers the query ...
        try:
            self.slate = self.client.recommend(
                query, session_id=self.session_id, user_id=self.user_id
            )
        except NextqueryError:  # the search page also works without recommendations
            self.slate = None
        return [] if self.slate is None else [r.text for r in self.slate.recommendations]

    def _learn(self, query: str) -> None:
        """Send feedback on the last slate: this query was clicked in it, or typed instead."""
        if self.slate is None:
            return
        clicked = [r.arm_id for r in self.slate.recommendations if r.text == query]
        accepted, issued = (clicked[0], None) if clicked else (None, query)
        with suppress(NextqueryError):  # never show the visitor an error for this
            self.client.feedback(self.slate.decision_id, accepted=accepted, issued=issued)


def main() -> None:
    """Play three visitors who click the second recommendation, then type something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, default=Path("pools/topics"))
    parser.add_argument("--url", help="a running service; else one is started")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            store = f"sqlite:///{folder}/events.db"
            options.url = stack.enter_context(ServiceProcess(options.pool, store)).url
        client = stack.enter_context(nq.Client(options.url))
        pool = nq.ArmPool.open(options.pool)
        for visitor in range(3):
            box = SearchBox(client, user_id=f"visitor-{visitor}")
            query = pool.shown(visitor * (len(pool) // 3))
            for _ in range(2):
                print(f"visitor {visitor} asks: {query[:80]}")
                shown = box.search(query)
                for text in shown:
                    print(f"    {text[:80]}")
                query = shown[1] if len(shown) > 1 else query
            box.search("something else altogether")
        print("totals of the service:", client.stats()["totals"])


if __name__ == "__main__":
    main()
