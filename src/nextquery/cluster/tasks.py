"""Spread calls of any function over a cluster, as Ray tasks."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ray

from nextquery.cluster.connection import connect, warn_if_no_cpus
from nextquery.cluster.reach import check_reach
from nextquery.errors import ClusterUnavailable, NextqueryError

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
