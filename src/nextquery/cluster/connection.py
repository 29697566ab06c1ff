"""Start a Ray of our own, or join one: with a token on every node, and soon an answer or an error.

Ray reads ``RAY_AUTH_MODE`` once, when it is imported, and without it leaves a token file in the
home folder that later clusters then enforce. So the mode is set here, before Ray is imported. A
program that imports Ray first must set it itself.
"""

import logging
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nextquery.checks import installed
from nextquery.errors import ClusterUnavailable, InvalidInput

installed("cluster", "ray")
if "ray" not in sys.modules:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # tells nobody what runs here

import ray  # noqa: E402
from ray._private import worker as _worker  # noqa: E402
from ray._private.services import get_ray_address_from_environment  # noqa: E402

_LOGGER = logging.getLogger("nextquery.cluster")
_OBJECTS = 256 << 20  # bytes of a local Ray's object store: answers pass through it, not the arms
_names: set[str] = set()  # by which this process has joined
_PATIENCE = 5.0  # seconds for a head node to take a connection


def connect(address: str | None = None, *, cpus: int | None = None) -> str:
    """Be connected to Ray, and return its address; connected already, this changes nothing.

    Parameters
    ----------
    address : ``host:port`` of a head node, ``auto`` for the Ray of this machine, or None: the
        one that ``RAY_ADDRESS`` names, or else a local one that ends with this process.
    cpus : how many tasks a local Ray runs at once; as many as there are cores by default.
    """
    if address == "":
        raise InvalidInput(
            "the cluster's address is empty. Give host:port of its head node, auto, or local."
        )
    if ray.is_initialized():
        return _joined(address)
    _names.clear()  # they were those of a connection that has ended
    wanted = address or os.environ.get("RAY_ADDRESS")
    try:
        if wanted in (None, "local"):
            _start(cpus)
        else:
            _join(str(wanted))
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        if isinstance(error, ClusterUnavailable):
            raise
        raise ClusterUnavailable(
            f"could not reach a Ray cluster at {wanted or 'this machine'}: "
            f"{str(error).strip().splitlines()[0]} Every process needs the cluster's token, in "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token, and the same Ray and Python versions."
        ) from error
    _names.add(str(wanted))
    return str(connected_to())


def connected_to() -> str | None:
    """The address of the Ray that this process is in, if it is in any."""
    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else None


def this_connection() -> str | None:
    """A name for the time since this process joined; its actors end with it."""
    return str(ray.get_runtime_context().get_job_id()) if ray.is_initialized() else None


def alive_nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster that are up."""
    return [node for node in ray.nodes() if node["Alive"]]


def say_if_nothing_computes() -> None:
    """Ray lets tasks wait for a machine that has a CPU; people should know what they wait for."""
    if ray.cluster_resources().get("CPU", 0) < 1:
        _LOGGER.warning(
            "no machine of the cluster at %s has a CPU for tasks: waiting for one. Start workers, "
            "or a node with --num-cpus above 0.",
            connected_to(),
        )


def _joined(wanted: str | None) -> str:
    """The address of the Ray that this process is in, if that is what is wanted."""
    here = str(connected_to())
    if wanted not in (None, "auto", "local", here, *_names):
        raise InvalidInput(
            f"this process is connected to the Ray at {here}, so it cannot join {wanted}. "
            "Give one address, or call ray.shutdown() in between."
        )
    return here


def _start(cpus: int | None) -> None:
    known = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    filed = (Path.home() / ".ray" / "auth_token").exists()
    asked = os.environ.get("RAY_AUTH_MODE", "token") == "token"
    if asked and not filed and not any(map(os.getenv, known)):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    _init(address="local", num_cpus=cpus, object_store_memory=_OBJECTS, include_dashboard=False)


def _join(address: str) -> None:
    if address == "auto":  # where Ray itself looks: RAY_ADDRESS, what runs here, what ran last
        address = str(get_ray_address_from_environment(address, None))
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InvalidInput(
            f"a cluster's address is host:port of its head node, auto, or local; "
            f"received {address!r}."
        )
    try:  # Ray itself would try for minutes
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise ClusterUnavailable(
            f"no Ray answers at {address}: {error}. Start the head node "
            "(ray start --head --port 6379), or check the address and the firewall."
        ) from error
    _init(address=address)


def _init(**options: Any) -> None:
    # Ray prints on standard output when a worker died, whatever it is told; that is for answers.
    setattr(_worker, "print_to_stdstream", _to_the_log)  # noqa: B010  (no part of Ray's types)
    ray.init(log_to_driver=False, logging_level="warning", **options)


def _to_the_log(data: Mapping[str, Any], **_: object) -> None:
    for line in data["lines"]:
        _LOGGER.warning("Ray: %s", str(line).strip())
