"""Two hosts on one machine: the guide's commands between network namespaces, with token and TLS.

Each namespace has an address, a /tmp and a /dev/shm of its own, and one wire goes between them; the
pool lies on a path that both see, as on NFS. Answers are compared with those of one process, then
the second host is lost. Needs Linux and root: the namespaces are made and removed here.

    python -m benchmarks.cluster_hosts [--no-tls]
"""

import argparse
import contextlib
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import nextquery as nq
from benchmarks.random_pool import random_pool
from benchmarks.timing import best_of
from nextquery.arms.kernels import Vectors

if TYPE_CHECKING:
    from nextquery.cluster import RayArmPool

HOSTS = {"nextquery-a": "10.77.0.1", "nextquery-b": "10.77.0.2"}
HEAD, OTHER = HOSTS
ADDRESS = f"{HOSTS[HEAD]}:6379"
K = 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", type=int, default=200_000)
    parser.add_argument("--no-tls", dest="tls", action="store_false")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        ask(Path(options.inside))
        return
    for path in (Path.cwd(), Path(sys.prefix)):
        if path.is_relative_to("/tmp"):
            sys.exit(f"{path} cannot be seen on the hosts, which have a /tmp of their own.")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name, wire():
        shared = Path(name)
        random_pool(options.arms, 128).save(shared / "pool")
        if options.tls:
            certify(shared)
        secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        secret |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        tls = "on" if options.tls else "off"
        print(f"two hosts, {options.arms:,} arms × 128, k = {K}, token, TLS {tls}")
        with host(OTHER, shared, options.tls, secret, _JOIN):
            asked = f"{sys.executable} -m benchmarks.cluster_hosts --inside {shared}"
            command = f"{{ {_START} || {_SAY}; }} && {asked}"
            with host(HEAD, shared, options.tls, secret, command) as head:
                if head.wait():
                    sys.exit("the head host failed: see above")


_RAY = f"{Path(sys.executable).with_name('ray')} start"
_MEMORY = f"--object-store-memory {80 << 20} --num-cpus 2"
_QUIET = ">/tmp/ray-start.log 2>&1"
_SAY = "{ cat /tmp/ray-start.log; exit 1; }"
_START = (
    f"{_RAY} --head --port 6379 --node-ip-address {HOSTS[HEAD]} --include-dashboard false "
    f"{_MEMORY} {_QUIET}"
)
_JOIN = (
    f"until {_RAY} --address {ADDRESS} --node-ip-address {HOSTS[OTHER]} {_MEMORY} --block {_QUIET}"
    "; do sleep 0.5; done"
)


@contextlib.contextmanager
def wire() -> Iterator[None]:
    """Two namespaces with an address each and a wire between them, and nothing else."""
    ends = dict(zip(HOSTS, ("nq-a", "nq-b"), strict=True))
    try:
        for name in HOSTS:
            _do("ip", "netns", "add", name)
        _do("ip", "link", "add", *("nq-a", "type", "veth", "peer", "name", "nq-b"))
        for name, address in HOSTS.items():
            _do("ip", "link", "set", ends[name], "netns", name)
            within = ("ip", "-n", name)
            _do(*within, "address", "add", f"{address}/24", "dev", ends[name])
            for device in (ends[name], "lo"):
                _do(*within, "link", "set", device, "up")
        yield
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def certify(folder: Path) -> None:
    """An authority, and for every host a certificate that names its address."""
    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    authority = ("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt"))
    _do("openssl", "req", "-x509", *key, "-subj", "/CN=nextquery", *authority)
    for name, address in HOSTS.items():
        made = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"))
        signed = ("-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"))
        names = f"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:{address}"
        _do(
            "openssl",
            "req",
            "-x509",
            *key,
            "-subj",
            f"/CN={name}",
            "-addext",
            names,
            *signed,
            *made,
        )


@contextlib.contextmanager
def host(
    name: str, shared: Path, tls: bool, secret: dict[str, str], command: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A command on one host, with a /tmp and a /dev/shm that nobody else sees."""
    files = {"SERVER_CERT": f"{name}.crt", "SERVER_KEY": f"{name}.key", "CA_CERT": "ca.crt"}
    paths = {f"RAY_TLS_{what}": str(shared / file) for what, file in files.items()}
    known = {**os.environ, **secret, **(paths | {"RAY_USE_TLS": "1"} if tls else {})}
    own = "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm"
    inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    full = ["ip", "netns", "exec", name, *inside, "bash", "-c", f"{own} && {command}"]
    with subprocess.Popen(full, env=known) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(shared: Path) -> None:
    """On the head host: the pool in two shards beside the pool in this process."""
    from nextquery.cluster import RayArmPool, connect
    from nextquery.cluster.connection import alive_nodes

    connect(ADDRESS)
    while len(alive_nodes()) < len(HOSTS):
        time.sleep(0.2)
    here = nq.ArmPool.open(shared / "pool")
    anchors = np.random.default_rng(1).standard_normal((256, here.dim), np.float32)
    opened = partial(RayArmPool.open, shared / "pool", address=ADDRESS, shards=2)
    with opened(deadline=120) as patient, opened(deadline=2, on_missing="partial") as hasty:
        where(patient)
        if "RAY_USE_TLS" in os.environ:
            mutual = refuses(shared, certified=False) and not refuses(shared, certified=True)
            print(f"who has no certificate is refused: {mutual}")
        for what, asked in {"one anchor": anchors[0], "256 anchors": anchors}.items():
            compare(what, asked, here, patient)
        hasty.nearest(anchors[0], K)
        _do("ip", "link", "set", "nq-a", "down")  # nobody says good-bye
        print("the wire is cut")
        for asked in anchors[:2]:
            seconds, missing = answered(hasty, asked, here)
            print(f"  deadline 2 s, partial: after {seconds:.1f} s, {missing:,} arms missing")
        seconds, missing = answered(patient, anchors[0], here)
        print(f"  deadline 120 s: after {seconds:.1f} s, {missing:,} arms missing; it is equal")


def where(pool: "RayArmPool") -> None:
    """Print on which hosts the shards are: one on each."""
    from nextquery.cluster.connection import alive_nodes

    hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in alive_nodes()}
    found = [hosts[shard.node] for shard in pool.whereabouts()]
    print(f"shards on {' and '.join(found)}")
    assert sorted(found) == sorted(HOSTS.values())


def compare(what: str, asked: Vectors, here: nq.ArmPool, there: nq.ArmPool) -> None:
    """Print the times of both, whose answers must be equal."""
    pairs = zip(here.nearest(asked, K), there.nearest(asked, K), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    pools = {"in process": here, "two hosts": there}
    times = best_of({who: partial(pool.nearest, asked, K) for who, pool in pools.items()}, rest=0.2)
    said = ", ".join(f"{who} {1e3 * seconds:.1f} ms" for who, seconds in times.items())
    print(f"{what}: equal; {said}")


def answered(pool: "RayArmPool", anchor: Vectors, here: nq.ArmPool) -> tuple[float, int]:
    """Seconds until the answer, and how many arms it misses; a whole one must be equal."""
    began = time.perf_counter()
    answer = pool.nearest(anchor, K)
    seconds = time.perf_counter() - began
    assert answer.missing or np.array_equal(answer[0], here.nearest(anchor, K)[0])
    return seconds, answer.missing


def refuses(shared: Path, *, certified: bool) -> bool:
    """Whether the head node ends a TLS connection that we open to it."""
    context = ssl.create_default_context(cafile=str(shared / "ca.crt"))
    context.set_alpn_protocols(["h2"])
    if certified:
        context.load_cert_chain(shared / f"{HEAD}.crt", shared / f"{HEAD}.key")
    with socket.create_connection((HOSTS[HEAD], 6379), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=HOSTS[HEAD]) as told:
                return told.recv(1) == b""  # a gRPC server speaks first
        except (ssl.SSLError, ConnectionError):
            return True


def _do(*command: str) -> None:
    if shutil.which(command[0]) is None:
        sys.exit(f"this needs {command[0]}; install it, and run as root on Linux.")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()} (Linux and root are needed)")


if __name__ == "__main__":
    main()
