"""Start the service on a pool, ask it for a slate, click, and read its pages."""

import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

import nextquery
from nextquery.service.process import ServiceProcess

folder = tempfile.mkdtemp()
store = f"sqlite:///{folder}/events.db"
with ServiceProcess(sys.argv[1], store, log=Path(folder, "log")) as service:
    with nextquery.Client(service.url) as client:
        slate = client.recommend("cat food", session_id="s-1")
        client.feedback(slate.decision_id, accepted=slate.recommendations[0].arm_id)
    for path in ("/", "/healthz"):
        with urlopen(service.url + path) as answer:
            if answer.status != 200:
                sys.exit(f"{path} answered {answer.status}")
    if (Path(nextquery.__file__).parent / "service" / "site").is_dir():
        with urlopen(f"{service.url}/docs/") as answer:
            if b"nextquery" not in answer.read():
                sys.exit("/docs/ is not the documentation")
print(f"{len(slate.recommendations)} recommendations, a click, the page")
