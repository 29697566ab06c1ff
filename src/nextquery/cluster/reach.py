"""Whether every machine of the cluster reaches a folder: seen before work, not after it failed."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from nextquery.cluster.connection import alive_nodes
from nextquery.errors import ClusterUnavailable, InvalidInput, StorageError

_RETRIES = 3  # a worker that dies says nothing about its machine's files
_PATIENCE = 60.0  # seconds for every machine to answer: a first worker takes some to start


def check_reach(folder: str | os.PathLike[str], reads: Iterable[Path] = ()) -> None:
    """Refuse a folder that some machine of the cluster cannot read and write as this one does.

    Every node reads a file that this process wrote there, and answers with a file of its own; it
    also looks for the files `reads`.
    """
    here, word = Path(folder), secrets.token_hex(8)
    files = [file.absolute() for file in reads]
    probe = here / f".reach-{word}.tmp"
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in alive_nodes()}
    try:
        probe.write_text(word, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"could not write {here}: {error}. Fix permissions or space.") from error
    try:
        told = {_ask(node, probe, word, files): (node, where) for node, where in nodes.items()}
        answered, silent = ray.wait(list(told), num_returns=len(told), timeout=_PATIENCE)
        for answer in answered:
            node, address = told[answer]
            try:
                problem = ray.get(answer)
            except ray.exceptions.RayError as error:
                if node not in {there["NodeID"] for there in alive_nodes()}:
                    continue  # it left the cluster meanwhile
                raise ClusterUnavailable(
                    f"the machine {address} could not look at {here.absolute()}: "
                    f"{str(error).strip().splitlines()[-1]} Look at it (ray status), and try again."
                ) from error
            if problem is None and not _answer(probe, node).exists():
                problem = "what it writes there is not seen here"
            if problem is not None:
                raise InvalidInput(
                    f"the machine {address} does not reach {here.absolute()} or what is "
                    f"read: {problem}. Everything must lie on a path that all machines share, "
                    "such as NFS."
                )
        for answer in silent:
            ray.cancel(answer)
        if silent:
            raise ClusterUnavailable(
                f"the machine {told[silent[0]][1]} did not answer within {_PATIENCE:.0f} s. Look "
                "at it (ray status), and try again."
            )
    finally:
        for left in (probe, *(_answer(probe, node) for node in nodes)):
            left.unlink(missing_ok=True)


def _answer(probe: Path, node: str) -> Path:
    return probe.with_name(f"{probe.name}.{node}")


def _ask(node: str, probe: Path, word: str, files: list[Path]) -> "ray.ObjectRef":
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    asked = ray.remote(_look).options(num_cpus=0, max_retries=_RETRIES, scheduling_strategy=there)
    return asked.remote(probe.absolute(), _answer(probe, node).absolute(), word, files)


def _look(probe: Path, answer: Path, word: str, files: list[Path]) -> str | None:
    """On another machine: what is wrong with the path, if anything."""
    try:
        if probe.read_text(encoding="utf-8") != word:
            return "another folder lies there"
        for file in files:
            file.stat()
        answer.write_text(word, encoding="utf-8")
    except OSError as error:
        return f"{error.strerror} ({error.filename})"
    return None
