"""Start a local Ray or join a cluster, with token authentication and early errors.

Ray reads ``RAY_AUTH_MODE`` once, when it is imported. Without it, Ray leaves a token file in the
home folder, which later clusters enforce. So this module sets the mode before it imports Ray. A
program that imports Ray first must set it itself.

Before work starts, a check makes sure that every machine of the cluster can reach a folder.
"""

import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nextquery.checks import installed
from nextquery.errors import ClusterUnavailable, InvalidInput, StorageError

installed("cluster", "ray")
if "ray" not in sys.modules:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports

import ray  # noqa: E402
from ray._private import worker as _worker  # noqa: E402
from ray._private.services import get_ray_address_from_environment  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

_LOGGER = logging.getLogger("nextquery.cluster")
_OBJECTS = 256 << 20  # bytes of a local Ray's object store, which holds answers, not arms
_addresses: set[str] = set()  # by which this process has joined
_CONNECT_SECONDS = 5.0  # seconds for a head node to accept a connection


def connect(address: str | None = None, *, cpus: int | None = None) -> str:
    """Connect to Ray and return its address; if already connected, do nothing.

    Parameters
    ----------
    address : ``host:port`` of a head node, ``auto`` for the Ray on this machine, or None for the
        address in ``RAY_ADDRESS``, or else a local Ray that stops with this process.
    cpus : number of tasks that a local Ray runs at once; one per core by default.
    """
    if address == "":
        raise InvalidInput(
            "the cluster's address is empty. Pass host:port of its head node, auto, or local."
        )
    if ray.is_initialized():
        return _joined(address)
    _addresses.clear()  # they belong to a connection that has ended
    target = address or os.environ.get("RAY_ADDRESS")
    try:
        if target in (None, "local"):
            _start(cpus)
        else:
            _join(str(target))
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        if isinstance(error, ClusterUnavailable):
            raise
        raise ClusterUnavailable(
            f"could not reach a Ray cluster at {target or 'this machine'}: "
            f"{str(error).strip().splitlines()[0]} Every process needs the cluster's token, in "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token, and the same Ray and Python versions."
        ) from error
    _addresses.add(str(target))
    return str(connected_to())


def connected_to() -> str | None:
    """Return the address of the Ray that this process is connected to, if any."""
    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else None


def this_connection() -> str | None:
    """Return an id of the current connection; its actors stop with it."""
    return str(ray.get_runtime_context().get_job_id()) if ray.is_initialized() else None


def alive_nodes() -> list[dict[str, Any]]:
    """Return the nodes of the cluster that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def warn_if_no_cpus() -> None:
    """Log a warning if no machine has a CPU: Ray then lets tasks wait without a message."""
    if ray.cluster_resources().get("CPU", 0) < 1:
        _LOGGER.warning(
            "no machine of the cluster at %s has a CPU for tasks: waiting for one. Start workers, "
            "or a node with --num-cpus above 0.",
            connected_to(),
        )


def _joined(address: str | None) -> str:
    """Return the address of the current connection, or raise an error if `address` is another."""
    here = str(connected_to())
    if address not in (None, "auto", "local", here, *_addresses):
        raise InvalidInput(
            f"this process is connected to the Ray at {here}, so it cannot join {address}. "
            "Use one address, or call ray.shutdown() first."
        )
    return here


def _start(cpus: int | None) -> None:
    variables = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    in_file = (Path.home() / ".ray" / "auth_token").exists()
    enabled = os.environ.get("RAY_AUTH_MODE", "token") == "token"
    if enabled and not in_file and not any(map(os.getenv, variables)):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    _init(address="local", num_cpus=cpus, object_store_memory=_OBJECTS, include_dashboard=False)


def _join(address: str) -> None:
    if address == "auto":  # as Ray does: RAY_ADDRESS, a local Ray, or the last one
        address = str(get_ray_address_from_environment(address, None))
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InvalidInput(
            f"received {address!r} as a cluster's address. Pass host:port of its head node, auto, "
            "or local."
        )
    try:  # Ray itself would retry for minutes
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterUnavailable(
            f"no Ray answers at {address}: {error}. Start the head node "
            "(ray start --head --port 6379), or check the address and the firewall."
        ) from error
    _init(address=address)


def _init(**options: Any) -> None:
    # Ray always prints to standard output when a worker dies; standard output is for results.
    setattr(_worker, "print_to_stdstream", _log_lines)  # noqa: B010  (not in Ray's types)
    ray.init(log_to_driver=False, logging_level="warning", **options)


def _log_lines(data: Mapping[str, Any], **_: object) -> None:
    for line in data["lines"]:
        _LOGGER.warning("Ray: %s", str(line).strip())


_RETRIES = 3  # a dead worker is not evidence about its machine's files
_ANSWER_SECONDS = 60.0  # seconds for every machine to answer; a first worker takes some to start


def check_reach(folder: str | os.PathLike[str], reads: Iterable[Path] = ()) -> None:
    """Raise an error if a machine of the cluster cannot read and write a folder as this one does.

    Every node reads a file that this process wrote there, and writes a file in reply. It also
    checks that the files `reads` exist.
    """
    here, token = Path(folder), secrets.token_hex(8)
    files = [file.absolute() for file in reads]
    probe = here / f".reach-{token}.tmp"
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in alive_nodes()}
    try:
        probe.write_text(token, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"could not write {here}: {error}. Check permissions and free space."
        ) from error
    try:
        checks = {
            _start_check(node, probe, token, files): (node, address)
            for node, address in nodes.items()
        }
        answered, silent = ray.wait(list(checks), num_returns=len(checks), timeout=_ANSWER_SECONDS)
        for answer in answered:
            node, address = checks[answer]
            try:
                problem = ray.get(answer)
            except ray.exceptions.RayError as error:
                if node not in {alive["NodeID"] for alive in alive_nodes()}:
                    continue  # it left the cluster meanwhile
                raise ClusterUnavailable(
                    f"the machine {address} could not check {here.absolute()}: "
                    f"{str(error).strip().splitlines()[-1]} Check the machine (ray status) and try "
                    "again."
                ) from error
            if problem is None and not _reply(probe, node).exists():
                problem = "files it writes there are not visible here"
            if problem is not None:
                raise InvalidInput(
                    f"the machine {address} cannot reach {here.absolute()} or the files to "
                    f"read: {problem}. Put everything on a path that all machines share, such as "
                    "NFS."
                )
        for answer in silent:
            ray.cancel(answer)
        if silent:
            raise ClusterUnavailable(
                f"the machine {checks[silent[0]][1]} did not answer within "
                f"{_ANSWER_SECONDS:.0f} s. "
                "Check the machine (ray status) and try again."
            )
    finally:
        for file in (probe, *(_reply(probe, node) for node in nodes)):
            file.unlink(missing_ok=True)


def _reply(probe: Path, node: str) -> Path:
    return probe.with_name(f"{probe.name}.{node}")


def _start_check(node: str, probe: Path, token: str, files: list[Path]) -> "ray.ObjectRef":
    on_node = NodeAffinitySchedulingStrategy(node, soft=False)
    check = ray.remote(_check).options(
        num_cpus=0, max_retries=_RETRIES, scheduling_strategy=on_node
    )
    return check.remote(probe.absolute(), _reply(probe, node).absolute(), token, files)


def _check(probe: Path, reply: Path, token: str, files: list[Path]) -> str | None:
    """Check the path on another machine; return what is wrong, or None."""
    try:
        if probe.read_text(encoding="utf-8") != token:
            return "the path is another folder there"
        for file in files:
            file.stat()
        reply.write_text(token, encoding="utf-8")
    except OSError as error:
        return f"{error.strerror} ({error.filename})"
    return None
