"""What the memory of a service consists of, and how long a restart takes.

    python -m benchmarks.service_memory POOL [--requests 4000]

A process does what `nextquery serve` does, step by step, and prints what each step added: memory of
its own, and pages of files (libraries and the pool), which all workers share and the system takes
back when it needs them. Then the store is closed and opened again, as a restart does, and the
seconds until the first answer are printed. Linux only.
"""

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def resident() -> tuple[float, float]:
    """Return the MiB of this process's own memory, and of the files it has read through."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.split(":")[0]: float(line.split()[1]) for line in lines}
    return kib["Anonymous"] / 1024, (kib["Rss"] - kib["Anonymous"]) / 1024


class Ledger:
    """Prints a row for every step: what it added."""

    def __init__(self) -> None:
        self._last = (0.0, 0.0)
        print("| step | own MiB | files MiB | seconds |\n|---|---:|---:|---:|")

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Do one step and print what it added."""
        begin = time.perf_counter()
        made = work()
        seconds = time.perf_counter() - begin
        gc.collect()
        now = resident()
        added = [new - old for new, old in zip(now, self._last, strict=True)]
        self._last = now
        print(f"| {name} | {added[0]:.0f} | {added[1]:.0f} | {seconds:.2f} |", flush=True)
        return made

    def total(self) -> None:
        """Print the sum of all rows."""
        print(f"| **sum** | **{self._last[0]:.0f}** | **{self._last[1]:.0f}** | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--requests", type=int, default=4000, help="each with another query")
    options = parser.parse_args()
    ledger = Ledger()
    ledger.step("Python and this script", lambda: None)

    def modules() -> Any:
        from nextquery.service import server  # all that a service loads

        return server

    ledger.step("modules of nextquery and its packages", modules)
    import nextquery as nq
    from nextquery.service.engine.engine import Engine
    from nextquery.service.log.store import Store
    from nextquery.service.server import warm_up

    with tempfile.TemporaryDirectory(prefix="nextquery-memory-") as folder:
        url = f"sqlite:///{folder}/memory.db"
        pool = ledger.step("open the pool", lambda: nq.ArmPool.open(options.pool))
        texts = pool.texts
        some = [texts[i] for i in random.Random(0).sample(range(len(texts)), options.requests)]
        store = ledger.step("open the store", lambda: Store.open(url))
        engine = ledger.step(
            "start: memory of past sessions, warm start, snapshot",
            lambda: Engine.start(pool, store),
        )
        ledger.step("first answer: kernels, coded copy of the vectors", lambda: warm_up(engine))

        def ask() -> None:
            for number, text in enumerate(some):
                engine.recommend(session_id=f"s{number}", query=text, m=5)

        ledger.step(f"{options.requests:,} answers: the cache of candidate sets", ask)
        ledger.total()
        engine.close()
        store.close()
        begin = time.perf_counter()
        store = Store.open(url)
        with Engine.start(nq.ArmPool.open(options.pool), store) as again:
            warm_up(again)
            print(f"\nRestart, until the first answer: {time.perf_counter() - begin:.2f} s")
        store.close()


if __name__ == "__main__":
    main()
