"""Encoding on the machines of a cluster, with Ray Data: blocks of texts in, files of vectors out.

Only the numbers of blocks travel. A worker maps the texts, loads the encoder once and writes each
block of vectors to its own file, so neither the object store nor this process ever holds more than
numbers, and blocks made before a kill are there when the run is started again.
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
from nextquery.cluster.connection import connect, say_if_nothing_computes
from nextquery.cluster.reach import check_reach
from nextquery.encoding import Hand, Plan
from nextquery.errors import ClusterUnavailable, NextqueryError
from nextquery.folders import MANIFEST

_TRIES = 5  # times that a block may take its worker with it
Batch = dict[str, NDArray[Any]]
_hands: dict[Path, Hand] = {}  # in a worker: the encoder it has loaded, named by what it makes


def on_ray(plan: Plan, missing: Sequence[int]) -> Iterator[int]:
    """Make the blocks of a plan with all CPUs of the cluster; the numbers as they are written.

    It is an `encode_blocks` for `nextquery.ingest.ingest`. A worker or a machine that dies is
    replaced, and its block is made again.
    """
    installed("cluster", "pandas", "pyarrow")
    connect()
    check_reach(plan.out, [folder.path / MANIFEST for folder in (plan.texts, plan.encoder)])
    say_if_nothing_computes()
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
            raise  # a defect, not the cluster's
        except ray.exceptions.RayError as error:
            raise ClusterUnavailable(
                f"the cluster could not encode: {_last_line(error)} Blocks that were finished are "
                "kept: look at the machines (ray status) and run the same command again."
            ) from error


def _work(batch: Batch, plan: Plan) -> Batch:
    """In a worker: make one block. An error of ours is an answer, to come back as it is."""
    problem = np.empty(1, object)
    try:
        _make(int(batch["item"][0]), plan)
    except (NextqueryError, OSError) as error:
        problem[0] = error
    return {"item": batch["item"], "problem": problem}


def _make(number: int, plan: Plan) -> None:
    # A worker's death is no fault of the block, unless every worker dies of it: that is counted.
    tries = plan.out / f".{number}.tries.tmp"
    with open(tries, "ab") as stream:
        stream.write(b"x")
    if tries.stat().st_size > _TRIES:
        raise ClusterUnavailable(
            f"block {number} was begun {_TRIES} times, and each time its worker died. It may "
            "need more memory than a worker has: see the logs of Ray on the machines."
        )
    if plan.out not in _hands:
        _hands.clear()
        _hands[plan.out] = Hand(plan)
    _hands[plan.out].make(number)
    tries.unlink(missing_ok=True)


@contextmanager
def _quietly() -> Iterator[Any]:
    """Ray Data without its notes on standard error, and without warnings of its own defaults."""
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
