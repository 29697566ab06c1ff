"""Two hosts on one machine: the guide's commands between network namespaces, with token and TLS.

Each namespace has its own address, /tmp and /dev/shm, and one link connects them. The pool is on a
path that both see, as on NFS. Answers are compared with those of one process, then the second host
is lost. Needs Linux and root: this script creates and removes the namespaces.

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
            sys.exit(f"{path} is not visible on the hosts, which have their own /tmp.")
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
            inside = f"{sys.executable} -m benchmarks.cluster_hosts --inside {shared}"
            command = f"{{ {_START} || {_SHOW_LOG}; }} && {inside}"
            with host(HEAD, shared, options.tls, secret, command) as head:
                if head.wait():
                    sys.exit("the head host failed: see above")


_RAY = f"{Path(sys.executable).with_name('ray')} start"
_MEMORY = f"--object-store-memory {80 << 20} --num-cpus 2"
_QUIET = ">/tmp/ray-start.log 2>&1"
_SHOW_LOG = "{ cat /tmp/ray-start.log; exit 1; }"
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
    """Create two namespaces, each with an address, and a link between them."""
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
    """Create an authority, and for every host a certificate for its address."""
    key = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    authority = ("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt"))
    _do("openssl", "req", "-x509", *key, "-subj", "/CN=nextquery", *authority)
    for name, address in HOSTS.items():
        files = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"))
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
            *files,
        )


@contextlib.contextmanager
def host(
    name: str, shared: Path, tls: bool, secret: dict[str, str], command: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command on one host, with a private /tmp and /dev/shm."""
    files = {"SERVER_CERT": f"{name}.crt", "SERVER_KEY": f"{name}.key", "CA_CERT": "ca.crt"}
    paths = {f"RAY_TLS_{what}": str(shared / file) for what, file in files.items()}
    environment = {**os.environ, **secret, **(paths | {"RAY_USE_TLS": "1"} if tls else {})}
    mounts = "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm"
    inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    full = ["ip", "netns", "exec", name, *inside, "bash", "-c", f"{mounts} && {command}"]
    with subprocess.Popen(full, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(shared: Path) -> None:
    """On the head host, compare the pool in two shards with the pool in this process."""
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
            print(f"clients without a certificate are rejected: {mutual}")
        for what, vectors in {"one anchor": anchors[0], "256 anchors": anchors}.items():
            compare(what, vectors, here, patient)
        hasty.nearest(anchors[0], K)
        _do("ip", "link", "set", "nq-a", "down")  # without closing connections
        print("the link is down")
        for anchor in anchors[:2]:
            seconds, missing = answered(hasty, anchor, here)
            print(f"  deadline 2 s, partial: after {seconds:.1f} s, {missing:,} arms missing")
        seconds, missing = answered(patient, anchors[0], here)
        print(f"  deadline 120 s: after {seconds:.1f} s, {missing:,} arms missing; equal")


def where(pool: "RayArmPool") -> None:
    """Print the hosts of the shards, one on each."""
    from nextquery.cluster.connection import alive_nodes

    hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in alive_nodes()}
    found = [hosts[shard.node] for shard in pool.whereabouts()]
    print(f"shards on {' and '.join(found)}")
    assert sorted(found) == sorted(HOSTS.values())


def compare(what: str, anchors: Vectors, here: nq.ArmPool, there: nq.ArmPool) -> None:
    """Print the times of both pools, after checking that their answers are equal."""
    pairs = zip(here.nearest(anchors, K), there.nearest(anchors, K), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    tasks = {"in process": partial(here.nearest, anchors, K)}
    tasks["two hosts"] = partial(there.nearest, anchors, K)
    times = best_of(tasks, rest=0.2)
    shown = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in times.items())
    print(f"{what}: equal; {shown}")


def answered(pool: "RayArmPool", anchor: Vectors, here: nq.ArmPool) -> tuple[float, int]:
    """Return the seconds until the answer and its missing arms; a complete one must be equal."""
    start = time.perf_counter()
    answer = pool.nearest(anchor, K)
    seconds = time.perf_counter() - start
    assert answer.missing or np.array_equal(answer[0], here.nearest(anchor, K)[0])
    return seconds, answer.missing


def refuses(shared: Path, *, certified: bool) -> bool:
    """Whether the head node closes a TLS connection."""
    context = ssl.create_default_context(cafile=str(shared / "ca.crt"))
    context.set_alpn_protocols(["h2"])
    if certified:
        context.load_cert_chain(shared / f"{HEAD}.crt", shared / f"{HEAD}.key")
    with socket.create_connection((HOSTS[HEAD], 6379), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=HOSTS[HEAD]) as connection:
                return connection.recv(1) == b""  # a gRPC server sends first
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
