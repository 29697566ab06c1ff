"""Encode on a cluster with Ray Data: blocks of texts in, files of vectors out.

Only block numbers are sent. A worker maps the texts, loads the encoder once and writes each block
of vectors to its own file. So neither the object store nor this process holds vectors, and finished
blocks are reused when an interrupted run starts again.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from nextquery.checks import installed
from nextquery.cluster.connection import connect, warn_if_no_cpus
from nextquery.cluster.reach import check_reach
from nextquery.encoding import Hand, Plan
from nextquery.errors import ClusterUnavailable, NextqueryError
from nextquery.folders import MANIFEST

_TRIES = 5  # attempts per block before it counts as the cause of its workers' deaths
Batch = dict[str, NDArray[Any]]
_hands: dict[Path, Hand] = {}  # in a worker: the loaded encoder, by output folder


def on_ray(plan: Plan, missing: Sequence[int]) -> Iterator[int]:
    """Encode the blocks of a plan on all CPUs of the cluster; yields each number when done.

    Pass it as `encode_blocks` to `nextquery.ingest.ingest`. If a worker or a machine dies, its
    block is encoded again elsewhere.
    """
    installed("cluster", "pandas", "pyarrow")
    connect()
    check_reach(plan.out, [folder.path / MANIFEST for folder in (plan.texts, plan.encoder)])
    warn_if_no_cpus()
    with _quietly() as data:
        numbers = data.from_items(list(missing), override_num_blocks=len(missing))
        numbers.context.enable_progress_bars = numbers.context.print_on_execution_start = False
        made = numbers.map_batches(_work, batch_size=1, fn_args=(plan,), num_cpus=1)
        try:
            for row in made.iter_rows():
                if row["problem"] is not None:
                    raise row["problem"]
                yield int(row["item"])
        except ray.exceptions.UserCodeException:
            raise  # a bug, not a failure of the cluster
        except ray.exceptions.RayError as error:
            raise ClusterUnavailable(
                f"the cluster could not encode: {_last_line(error)} Finished blocks are kept. "
                "Check the machines (ray status) and run the same command again."
            ) from error


def _work(batch: Batch, plan: Plan) -> Batch:
    """Encode one block in a worker; return expected errors, so that they are raised unchanged."""
    problem = np.empty(1, object)
    try:
        _make(int(batch["item"][0]), plan)
    except (NextqueryError, OSError) as error:
        problem[0] = error
    return {"item": batch["item"], "problem": problem}


def _make(number: int, plan: Plan) -> None:
    # A worker may die for other reasons; count the attempts to find a block that kills them all.
    tries = plan.out / f".{number}.tries.tmp"
    with open(tries, "ab") as stream:
        stream.write(b"x")
    if tries.stat().st_size > _TRIES:
        raise ClusterUnavailable(
            f"block {number} was started {_TRIES} times, and its worker died each time. It may "
            "need more memory than a worker has: check Ray's logs on the machines."
        )
    if plan.out not in _hands:
        _hands.clear()
        _hands[plan.out] = Hand(plan)
    _hands[plan.out].make(number)
    tries.unlink(missing_ok=True)


@contextmanager
def _quietly() -> Iterator[Any]:
    """Import Ray Data, with its log messages and its own warnings silenced."""
    logger = logging.getLogger("ray.data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray import data

        data.DataContext.get_current()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield data
    finally:
        logger.setLevel(level)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
