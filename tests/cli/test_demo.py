"""`nextquery demo`, and what an installation without the extras can do."""

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from nextquery.service.process import ServiceProcess
from tests.command_line import run_here


class Demo(ServiceProcess):
    """`nextquery demo` as a process."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        run = [sys.executable, "-m", "nextquery", "demo"]
        return [*run, "--folder", str(self.pool), "--port", str(self.port)]


def test_the_demo_makes_its_pool_and_goes_on_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with Demo(folder, "") as demo, urllib.request.urlopen(f"{demo.url}/") as page:
        assert page.status == 200
    made = (folder / "topics" / "manifest.json").stat().st_mtime_ns
    with Demo(folder, ""):
        assert (folder / "topics" / "manifest.json").stat().st_mtime_ns == made
    assert (folder / "topics.db").exists()


def test_a_wrong_setting_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run_here("demo", "--folder", str(tmp_path / "demo"), "--port", "many")
    assert done.returncode == 3
    assert "port (option --port): received 'many'" in done.stderr
    assert not (tmp_path / "demo").exists()


def test_without_arguments_the_first_steps_are_shown() -> None:
    done = run_here()
    assert done.returncode == 0
    for step in ("nextquery demo", "nextquery ingest LOG", "nextquery serve POOL"):
        assert step in done.stdout


WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import nextquery as nq
from nextquery.build.ingest import ingest
from nextquery.datasets import path
pool = ingest(str(path("topics")), sys.argv[1]).pool
rec = nq.Recommender(pool, nq.MaxUtility(k=50), nq.policy("lin-ucb-memory"),
                     memory=nq.Memory.of_pool(pool), repeat=True)
rec.warm_start()
session = rec.start("black hole physics")
session.accept(session.recommend())
print(session.query)
"""


def test_the_library_runs_on_topics_without_any_extra(tmp_path: Path) -> None:
    missing = {"scipy", "sklearn", "wordllama", "pyarrow", "pandas", "torch", "fastapi"}
    script = WITHOUT_EXTRAS.format(missing=missing)
    run = [sys.executable, "-c", script, str(tmp_path / "pool")]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.stdout.strip(), done.stderr


def test_a_taken_port_is_known_before_the_pool_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        demo = run_here("demo", "--folder", str(tmp_path / "demo"), "--port", port)
        store = f"sqlite:///{tmp_path / 'new.db'}"
        serve = run_here("serve", str(tmp_path), "--store", store, "--port", port)
    for done in (demo, serve):
        assert done.returncode == 3
        assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert not list(tmp_path.iterdir())
