"""Calls spread over the machines of a cluster, as Ray tasks; what they do is not known here."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ray

from nextquery.cluster.connection import connect, say_if_nothing_computes
from nextquery.cluster.reach import check_reach
from nextquery.errors import ClusterUnavailable, NextqueryError

_RETRIES = 5  # times that a call may lose its worker or machine and be begun again


class TasksOnRay:
    """Calls a function with each of some values, one CPU a call, and yields values as they end.

    A call whose worker or machine dies is made again elsewhere, so it must do no harm when it is
    made twice. An error that a call raises is raised here and ends the others. Killing this process
    ends them too.

    Parameters
    ----------
    writes : the folder that calls write into; every machine must reach it, which is seen first.
    reads : files that calls read; every machine must see them.
    """

    def __init__(
        self,
        writes: str | os.PathLike[str],
        reads: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self._writes, self._reads = Path(writes), [Path(file) for file in reads]
        self._checked = False

    def __call__(self, function: Callable[[Any], None], values: Sequence[Any]) -> Iterator[Any]:
        """Make the calls, in any order; function and values travel by pickle."""
        connect()
        if not self._checked:
            check_reach(self._writes, self._reads)
            say_if_nothing_computes()
            self._checked = True
        sent = ray.put(function)  # once, however many values there are
        call = ray.remote(_call).options(
            num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )
        running = {call.remote(sent, value): value for value in values}
        try:
            while running:
                ended, _ = ray.wait(list(running), num_returns=1)
                value = running.pop(ended[0])
                problem = ray.get(ended[0])
                if problem is not None:
                    raise problem
                yield value
        except ray.exceptions.RayTaskError:
            raise  # a defect, not the cluster's
        except ray.exceptions.RayError as error:
            raise ClusterUnavailable(
                f"the cluster could not finish a piece in {_RETRIES + 1} tries: "
                f"{str(error).strip().splitlines()[0]} Finished pieces are kept: look at the "
                "machines (ray status) and run the same command again."
            ) from error
        finally:
            for left in running:
                ray.cancel(left, force=True)


def _call(function: Callable[[Any], None], value: Any) -> Exception | None:
    """In a worker. An error for people is an answer, so that it comes back as it is."""
    try:
        function(value)
    except (NextqueryError, OSError) as error:
        return error
    return None
