"""Check, before work starts, that every machine of the cluster can reach a folder."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nextquery.cluster.connection import alive_nodes
from nextquery.errors import ClusterUnavailable, InvalidInput, StorageError

_RETRIES = 3  # a dead worker is not evidence about its machine's files
_PATIENCE = 60.0  # seconds for every machine to answer; a first worker takes some to start


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
        answered, silent = ray.wait(list(checks), num_returns=len(checks), timeout=_PATIENCE)
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
                f"the machine {checks[silent[0]][1]} did not answer within {_PATIENCE:.0f} s. "
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
