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
from typing import NamedTuple

import numpy as np
import psutil

import nextquery as nq
from benchmarks.http_load import load
from benchmarks.sources import name_of, source_first
from nextquery.service.process import ServiceProcess

LOOP = "event loop: sockets, HTTP, checks"


class Profiled(ServiceProcess):
    """The service with clocks in it."""

    out = Path()

    def command(self) -> list[str]:
        """Return the command that starts it."""
        plain = super().command()
        here = str(Path(__file__).parent / "profiled_service.py")
        return [sys.executable, here, str(self.out), *plain[plain.index("serve") :]]


class Profile(NamedTuple):
    """What a load showed; CPU seconds by part, and seconds with waiting where that is known."""

    clients: int
    seconds: list[float]  #: of every recommendation
    wall: float
    cpu: dict[str, float]
    waited: dict[str, float]
    ready_s: float
    private_mib: float


def measure(pool: Path, texts: list[str], clients: int, seconds: float) -> Profile:
    """Start a service, put it under load and read its clocks."""
    with tempfile.TemporaryDirectory(prefix="nextquery-profile-") as folder:
        settings = {"workers": 1, "log_level": "warning"}
        service = Profiled(pool, f"sqlite:///{folder}/profile.db", settings=settings)
        service.out = Path(folder) / "parts.json"
        begin = time.perf_counter()
        with service:
            ready_s = time.perf_counter() - begin
            assert service.process is not None
            process = psutil.Process(service.process.pid)
            before, idle, own = process.cpu_times(), psutil.cpu_times().idle, time.process_time()
            main_thread = _seconds_of(process, service.process.pid)
            times, wall = load(service.port, texts, clients=clients, seconds=seconds, seed=1)
            after = process.cpu_times()
            own, idle = time.process_time() - own, psutil.cpu_times().idle - idle
            main_thread = _seconds_of(process, service.process.pid) - main_thread
            private = process.memory_full_info().uss / 2**20
        parts = json.loads(service.out.read_text())
    cpu = {name: part[0] for name, part in parts.items()}
    waited = {name: part[1] for name, part in parts.items()}
    total = after.user + after.system - before.user - before.system
    cpu[LOOP] = main_thread - cpu.get("JSON of the answer", 0.0)
    cpu["other"] = total - sum(cpu.values())
    cpu["load generator"], cpu["idle"] = own, idle
    taken = times.seconds["/v1/recommend"]
    return Profile(clients, taken, wall, cpu, waited, ready_s, private)


def show(profile: Profile) -> None:
    """Print a table: the parts of a recommendation, in order of their CPU time."""
    count, cores = len(profile.seconds), profile.wall * (os.cpu_count() or 1)
    p50, p99 = 1000 * np.percentile(profile.seconds, [50, 99])
    rate = f"{count / profile.wall:.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    print(f"\nClients: {profile.clients}; {rate}\n")
    print("| part | CPU ms | waited and ran, ms | share of the cores |\n|---|---:|---:|---:|")
    for name, cpu in sorted(profile.cpu.items(), key=lambda row: -row[1]):
        both = f"{1000 * profile.waited[name] / count:.3f}" if name in profile.waited else ""
        print(f"| {name} | {1000 * cpu / count:.3f} | {both} | {cpu / cores:.1%} |")


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
                show(measure(options.pool, texts, clients, options.seconds))


if __name__ == "__main__":
    main()
