"""Start the service on a pool, ask it for a slate, click, and read its pages."""

import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

import nextquery
from nextquery.service.process import ServiceProcess

SITE = Path(nextquery.__file__).parent / "service" / "site"


def read(url: str) -> bytes:
    """Return what a page has; an error status raises."""
    with urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
        return body


def main() -> None:
    """Use the service as an application and as a reader."""
    folder = tempfile.mkdtemp()
    store = f"sqlite:///{folder}/events.db"
    with ServiceProcess(sys.argv[1], store, log=Path(folder, "log")) as service:
        with nextquery.Client(service.url) as client:
            slate = client.recommend("cat food", session_id="s-1")
            client.feedback(slate.decision_id, accepted=slate.recommendations[0].arm_id)
        pages = ["/", "/healthz", *["/docs/"] * SITE.is_dir()]
        for page in pages:
            if not read(service.url + page):
                sys.exit(f"{page} is empty")
    print(f"{len(slate.recommendations)} recommendations, a click, {' '.join(pages)}")


if __name__ == "__main__":
    main()
