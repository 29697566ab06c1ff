"""Where a recommendation's time goes: one client, then many, in one or several checkouts.

    python -m benchmarks.service_profile POOL [--source BEFORE/src --source AFTER/src]

The service runs with clocks in it (`benchmarks.profiled_service`), which cost some time themselves.
CPU is that of all threads; a *share* is of the time that two cores have for one recommendation,
feedback included. The load generator runs on the same cores.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import psutil

import nextquery as nq
from benchmarks.http_load import load
from benchmarks.sources import name_of, source_first
from nextquery.service.process import ServiceProcess


class Profiled(ServiceProcess):
    """The service with clocks in it."""

    out = Path()

    def command(self) -> list[str]:
        """Return the command that starts it."""
        plain = super().command()
        here = str(Path(__file__).parent / "profiled_service.py")
        return [sys.executable, here, str(self.out), *plain[plain.index("serve") :]]


def measure(pool: Path, texts: list[str], clients: int, seconds: float) -> None:
    """Print a table: the parts of a recommendation, in order of their CPU time."""
    with tempfile.TemporaryDirectory(prefix="nextquery-profile-") as folder:
        settings = {"workers": 1, "log_level": "warning"}
        service = Profiled(pool, f"sqlite:///{folder}/profile.db", settings=settings)
        service.out = Path(folder) / "parts.json"
        with service:
            assert service.process is not None
            process = psutil.Process(service.process.pid)
            before, idle, own = process.cpu_times(), psutil.cpu_times().idle, time.process_time()
            main_thread = _seconds_of(process, service.process.pid)
            times, wall = load(service.port, texts, clients=clients, seconds=seconds, seed=1)
            after = process.cpu_times()
            own, idle = time.process_time() - own, psutil.cpu_times().idle - idle
            main_thread = _seconds_of(process, service.process.pid) - main_thread
        parts = json.loads(service.out.read_text())
    count = len(times.seconds["/v1/recommend"])
    all_cores = wall * (os.cpu_count() or 1)
    print(f"\n{clients} client{'s' * (clients > 1)}: {times.line('/v1/recommend', wall).split()} "
          "(per second, p50, p95, p99 ms)\n")  # fmt: skip
    print("| part | CPU ms | waited and ran, ms | share of the cores |\n|---|---:|---:|---:|")
    total = after.user + after.system - before.user - before.system
    json_of_answers = parts.get("JSON of the answer", [0.0])[0]
    rows = {name: (cpu, wall_) for name, (cpu, wall_, _) in parts.items()}
    rows["event loop: sockets, HTTP, checks"] = (main_thread - json_of_answers, 0.0)
    rows["other"] = (total - sum(cpu for cpu, _ in rows.values()), 0.0)
    rows["load generator"], rows["idle"] = (own, 0.0), (idle, 0.0)
    for name, (cpu, waited) in sorted(rows.items(), key=lambda row: -row[1][0]):
        both = f"{1000 * waited / count:.3f}" if waited else ""
        print(f"| {name} | {1000 * cpu / count:.3f} | {both} | {cpu / all_cores:.1%} |")


def _seconds_of(process: psutil.Process, thread: int) -> float:
    found = (one for one in process.threads() if one.id == thread)
    return float(sum(one.user_time + one.system_time for one in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--source", type=Path, action="append")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    pool, rng = nq.ArmPool.open(options.pool), random.Random(0)
    texts = [pool.texts[i] for i in rng.sample(range(len(pool)), min(len(pool), 50_000))]
    for source in options.source or [None]:
        print(f"\n## {name_of(source)}, {len(pool):,} arms × {pool.dim}")
        for clients in options.clients:
            with source_first(source):
                measure(options.pool, texts, clients, options.seconds)


if __name__ == "__main__":
    main()
