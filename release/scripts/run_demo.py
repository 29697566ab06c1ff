"""Run `nextquery demo` in a folder of its own, read its page, and ask a topic in another form."""

import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import nextquery
from nextquery.service.process import ServiceProcess


class Demo(ServiceProcess):
    """`nextquery demo` as a process."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        run = [sys.executable, "-m", "nextquery", "demo"]
        return [*run, "--folder", str(self.pool), "--port", str(self.port)]


def main() -> None:
    """Say how long the first page took, and what comes after black holes."""
    folder, began = Path(tempfile.mkdtemp()), time.monotonic()
    with Demo(folder / "demo", "", log=folder / "log") as service:
        with urlopen(f"{service.url}/", timeout=60) as page:
            if b"What would you ask next?" not in page.read():
                sys.exit("this is not the page")
        seconds = time.monotonic() - began
        with nextquery.Client(service.url) as client:
            slate = client.recommend("black holes", session_id="s-1", m=3)
    texts = ", ".join(entry.text for entry in slate.recommendations)
    print(f"page after {seconds:.0f} s; after black holes: {texts}")


if __name__ == "__main__":
    main()
