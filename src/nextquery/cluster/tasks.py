"""Spread work over a cluster: calls of any function as Ray tasks, encoding with Ray Data.

Encoding takes blocks of texts and writes files of vectors. Only block numbers are sent: a worker
maps the texts, loads the encoder once and writes each block of vectors to its own file. So
neither the object store nor this process holds vectors. When an interrupted run starts again, it
reuses the finished blocks.
"""

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from nextquery.build.stages import EncodingPlan, EncodingWorker
from nextquery.checks import installed
from nextquery.cluster.connection import check_reach, connect, warn_if_no_cpus
from nextquery.errors import ClusterUnavailable, NextqueryError
from nextquery.folders import MANIFEST

_TRIES = 5  # attempts per block before it counts as the cause of its workers' deaths
Batch = dict[str, NDArray[Any]]
_workers: dict[Path, EncodingWorker] = {}  # in a worker: the loaded encoder, by output folder


def on_ray(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
    """Encode the blocks of a plan on all CPUs of the cluster; yields each number when done.

    Pass it as `encode_blocks` to `nextquery.build.ingest.ingest`. If a worker or a machine dies,
    its block is encoded again elsewhere.
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


def _work(batch: Batch, plan: EncodingPlan) -> Batch:
    """Encode one block in a worker; return expected errors, so that they are raised unchanged."""
    problem = np.empty(1, object)
    try:
        _make(int(batch["item"][0]), plan)
    except (NextqueryError, OSError) as error:
        problem[0] = error
    return {"item": batch["item"], "problem": problem}


def _make(number: int, plan: EncodingPlan) -> None:
    # A worker may die for other reasons; count the attempts to find a block that kills them all.
    tries = plan.out / f".{number}.tries.tmp"
    with open(tries, "ab") as stream:
        stream.write(b"x")
    if tries.stat().st_size > _TRIES:
        raise ClusterUnavailable(
            f"block {number} was started {_TRIES} times, and its worker died each time. It may "
            "need more memory than a worker has: check Ray's logs on the machines."
        )
    if plan.out not in _workers:
        _workers.clear()
        _workers[plan.out] = EncodingWorker(plan)
    _workers[plan.out].make(number)
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


_RETRIES = 5  # restarts of a call whose worker or machine died


class TasksOnRay:
    """Calls a function with each value, one CPU per call, and yields each value when it is done.

    If a worker or machine dies, its call is repeated elsewhere, so calls must be idempotent. An
    error in a call is raised here and cancels the others. Killing this process cancels them too.

    Parameters
    ----------
    writes : the folder that calls write to; checked first, because every machine must reach it.
    reads : files that calls read; every machine must be able to read them.
    """

    def __init__(
        self,
        writes: str | os.PathLike[str],
        reads: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self._writes, self._reads = Path(writes), [Path(file) for file in reads]
        self._checked = False

    def __call__(self, function: Callable[[Any], None], values: Sequence[Any]) -> Iterator[Any]:
        """Run the calls, in any order; function and values are sent by pickle."""
        connect()
        if not self._checked:
            check_reach(self._writes, self._reads)
            warn_if_no_cpus()
            self._checked = True
        sent = ray.put(function)  # sent once for all values
        call = ray.remote(_call).options(
            num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )
        running = {call.remote(sent, value): value for value in values}
        try:
            while running:
                ready, _ = ray.wait(list(running), num_returns=1)
                value = running.pop(ready[0])
                problem = ray.get(ready[0])
                if problem is not None:
                    raise problem
                yield value
        except ray.exceptions.RayTaskError:
            raise  # a bug, not a failure of the cluster
        except ray.exceptions.RayError as error:
            raise ClusterUnavailable(
                f"the cluster could not finish a piece in {_RETRIES + 1} tries: "
                f"{str(error).strip().splitlines()[0]} Finished pieces are kept. Check the "
                "machines (ray status) and run the same command again."
            ) from error
        finally:
            for ref in running:
                ray.cancel(ref, force=True)


def _call(function: Callable[[Any], None], value: Any) -> Exception | None:
    """Call the function in a worker; return expected errors, so that they are raised unchanged."""
    try:
        function(value)
    except (NextqueryError, OSError) as error:
        return error
    return None
