"""What 8 clients at work see while others attack the service, on this machine only.

Each attack of docs/reference/threats.md gets a new service on a new store. The clients work for a
while undisturbed and then under attack, in the same process, so the two rows of numbers compare.
With several ``--source`` the same attacks hit several checkouts in turn (before and after).

    python -m benchmarks.attackers POOL [--source PATH/src ...] [--seconds 10] [--only 4 5]
"""

import argparse
import asyncio
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nextquery as nq
from benchmarks.attacks import ATTACKS, Attack, Target
from benchmarks.postgres import Postgres
from benchmarks.sources import name_of, source_first
from benchmarks.working_clients import Seen, work
from nextquery.errors import StoreUnavailable
from nextquery.service.process import ServiceProcess

CLIENTS, QUIET_S = 8, 4.0
SETTINGS = {"warm_sessions": 200, "log_level": "warning"}
HEAD = (
    "| attack | source | p50 ms | p99 ms | p50 under attack | p99 under attack | answered/s | "
    "errors | empty | longest /healthz | what the attacker got |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
)


@contextmanager
def descriptors(limit: int | None) -> Iterator[None]:
    """Let processes that are started here have at most `limit` files and connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def create_key(store: str, scope: str) -> str:
    """Create an API key of the store and return it."""
    command = [sys.executable, "-m", "nextquery", "keys", "create", scope, "--scope", scope]
    done = subprocess.run(
        [*command, "--store", store], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()[0]


def played(attack: Attack, pool: Path, texts: list[str], seconds: float, folder: Path) -> str:
    """Start a service, let the clients work, attack, and return the cells of one row."""
    postgres = Postgres(folder / "postgres") if attack.store == "postgres" else None
    services: list[ServiceProcess] = []
    try:
        store = postgres.start() if postgres else f"sqlite:///{folder / 'store.db'}"
        log = folder / "service.log"
        service = ServiceProcess(pool, store, settings=SETTINGS, log=log)
        services.append(service)
        target = Target(service, texts, postgres=postgres, log=log)
        worker = create_key(store, "write") if attack.keyed else None
        if attack.keyed:
            target.write_key = create_key(store, "write")
            target.read_key = create_key(store, "read")
        with descriptors(attack.descriptors):
            service.start()
        if attack.twins:
            other = SETTINGS | {"user_hash_secret": "another"}
            twin = ServiceProcess(pool, store, settings=other, log=folder / "twin.log")
            services.append(twin)
            try:
                target.twin = twin.start()
            except StoreUnavailable:
                target.twin = None
        quiet, under, got = asyncio.run(_measured(attack, target, worker, seconds))
        if attack.after is not None:
            got = "; ".join(part for part in (got, attack.after(target)) if part)
    finally:
        for each in services:
            each.kill()
        if postgres is not None:
            postgres.kill()
    rate = len(under.seconds) / seconds
    cells = [quiet.percentile(50), quiet.percentile(99), under.percentile(50)]
    cells += [under.percentile(99), f"{rate:.0f}", str(under.errors), str(under.empty)]
    return " | ".join([*cells, under.silence, got])


async def _measured(
    attack: Attack, target: Target, key: str | None, seconds: float
) -> tuple[Seen, Seen, str]:
    """Return what the clients saw before and during the attack, and what the attacker got."""
    await work(target.port, target.texts, seconds=2, clients=CLIENTS, key=key, seed=1)
    quiet = await work(target.port, target.texts, seconds=QUIET_S, clients=CLIENTS, key=key, seed=2)
    attacking = asyncio.ensure_future(attack.run(target, time.perf_counter() + seconds + 0.5))
    await asyncio.sleep(0.5)
    under = await work(target.port, target.texts, seconds=seconds, clients=CLIENTS, key=key, seed=3)
    return quiet, under, await attacking


def main() -> None:
    os.environ["NEXTQUERY_CONTROL_SHARE"] = "0"  # chance must not decide which answers are compared
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path, help="a pool folder that ingest wrote")
    parser.add_argument(
        "--source",
        type=Path,
        action="append",
        default=[],
        help="the src folder of a checkout to attack; repeatable; else the installed one",
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each attack")
    parser.add_argument("--only", nargs="*", default=[], help="attacks whose names start so")
    options = parser.parse_args()
    arms = nq.ArmPool.open(options.pool)
    chosen = random.Random(0).sample(range(len(arms)), min(500, len(arms)))
    texts = [arms.texts[arm] for arm in chosen]
    print(HEAD, flush=True)
    for attack in ATTACKS:
        if options.only and not attack.name.startswith(tuple(options.only)):
            continue
        for source in options.source or [None]:
            with (
                tempfile.TemporaryDirectory(prefix="nextquery-attack-") as folder,
                source_first(source),
            ):
                cells = played(attack, options.pool, texts, options.seconds, Path(folder))
            name = name_of(source)
            print(f"| {attack.name} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
