"""What must work in an environment that has the wheel: each check does it and says what it saw."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from release.environment import CheckFailed, Environment

ROOT = Path(__file__).parents[1]
SCRIPTS = Path(__file__).parent / "scripts"
CONSTRAINTS = ROOT / "constraints.txt"
QUERY = "cat food"


@dataclass(frozen=True)
class Release:
    """What is checked."""

    wheel: Path
    version: str
    log: Path  #: a small log
    pool: Path  #: a pool of it, from another Python


Check = Callable[[Environment, Release], str]


def install(env: Environment, release: Release) -> str:
    """Install the wheel with what a service needs; say how long it took and how large it is."""
    began = time.monotonic()
    env.pip_install(f"{release.wheel}[service,client]", constraints=CONSTRAINTS)
    return f"{time.monotonic() - began:.0f} s, {env.megabytes()} MB"


def imports(env: Environment, release: Release) -> str:
    """Import every public module that needs no further extra."""
    return env.run("python", str(SCRIPTS / "import_public.py"), str(ROOT / "docs/stability.md"))


def version(env: Environment, release: Release) -> str:
    """Ask the command for its version."""
    answer = env.run("nextquery", "--version").strip()
    if answer != f"nextquery {release.version}":
        raise CheckFailed(f"nextquery --version printed {answer!r}")
    return answer.removeprefix("nextquery ")


def recommend(env: Environment, release: Release) -> str:
    """Recommend from a pool that another Python made."""
    return _recommended(env, release.pool)


def serve(env: Environment, release: Release) -> str:
    """Start the service, ask it and click, and read its page."""
    return env.run("python", "-W", "error", str(SCRIPTS / "call_service.py"), str(release.pool))


def demo(env: Environment, release: Release) -> str:
    """Run the demonstration, from the wheel alone in an empty folder."""
    return env.run("python", "-W", "error", str(SCRIPTS / "run_demo.py"))


def ingest(env: Environment, release: Release) -> str:
    """Add the extra for it, make a pool, and recommend from that."""
    env.pip_install(f"{release.wheel}[service,client,ingest]", constraints=CONSTRAINTS)
    pool = env.work / "pool"
    env.run("nextquery", "ingest", str(release.log), "--out", str(pool))
    return _recommended(env, pool)


def notebooks(env: Environment, release: Release) -> str:
    """Execute every notebook."""
    extras = "service,client,ingest,notebooks"
    env.pip_install(f"{release.wheel}[{extras}]", constraints=CONSTRAINTS)
    files = sorted(str(file) for file in (ROOT / "examples" / "notebooks").glob("*.ipynb"))
    return env.run("python", str(SCRIPTS / "run_notebooks.py"), *files)


def examples(env: Environment, release: Release) -> str:
    """Run the examples of README, CONTRIBUTING and the documentation."""
    return env.run("python", "-W", "error", str(SCRIPTS / "run_examples.py"), str(ROOT))


CHECKS: tuple[Check, ...] = (
    install,
    imports,
    version,
    recommend,
    serve,
    demo,
    ingest,
    notebooks,
    examples,
)


def _recommended(env: Environment, pool: Path) -> str:
    answer = json.loads(env.run("nextquery", "recommend", str(pool), QUERY, "--json"))
    texts = [entry["query"] for entry in answer["recommendations"]]
    if not texts or not texts[0].lower().startswith("cat "):
        raise CheckFailed(f"after {QUERY!r} it recommended {texts}")
    return f"{QUERY}: {texts[0]}"
