"""The set of shards: send calls, retry after failures, and track unavailable shards."""

import itertools
import os
import shutil
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray import exceptions

from nextquery.arms.kernels import Ids
from nextquery.arms.scan import RowRange
from nextquery.cluster.calls import Call, Failed, Sent
from nextquery.cluster.connection import connected_to, this_connection
from nextquery.cluster.layout import ROOM, nodes_with_room
from nextquery.cluster.shard import Shard, Share, View, warm_up
from nextquery.errors import ClusterUnavailable, InvalidInput, StorageError
from nextquery.folders import Folder

_LOST = (  # errors after the death of an actor, its worker or its machine
    exceptions.RayActorError,
    exceptions.ObjectLostError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
    exceptions.RpcError,
)
_PAUSE = 0.05  # seconds before a call is sent again
_STARTING = 120.0  # seconds for actors to start at all
_RESPONSE = 5.0  # seconds for a live actor to answer a ping, or less if the deadline is shorter
_SOON = 0.5  # but never less than this


class Whereabouts(NamedTuple):
    """The range of arms of a shard, and where it runs."""

    first: int
    last: int
    node: str
    pid: int


class Shards:
    """Resident actors, one for each range of rows that is not empty.

    They request no CPU, so that all of them start on a small machine. Ray always restarts them, on
    another machine if theirs is gone.

    Parameters
    ----------
    folder : an opened pool folder.
    bounds : where shards start and end, rising from 0 to the number of rows.
    deadline : seconds to wait for a failed shard before treating it as unavailable.
    threads : threads per shard; by default shards on a machine share its cores.
    scratch : a folder to delete when the shards stop.
    """

    def __init__(
        self,
        folder: Folder,
        bounds: Ids,
        *,
        deadline: float,
        threads: int | None,
        scratch: Path | None = None,
    ) -> None:
        self.bounds, self.deadline = bounds, deadline
        self._joined = connected_to(), this_connection()
        self._clean = weakref.finalize(self, shutil.rmtree, scratch, True) if scratch else None
        ranges = itertools.pairwise(bounds.tolist())
        shares = [Share(folder, *ends) for ends in ranges]
        numbers = [number for number, share in enumerate(shares) if share.first < share.last]
        kind = ray.remote(
            num_cpus=0,
            memory=ROOM,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            concurrency_groups={"health": 1},
        )(Shard)
        warm_up()  # compiled once here, not by all shards of this machine at the same time
        sharing = max(1, -(-len(numbers) // len(nodes_with_room())))
        self.actors = {i: kind.remote(shares[i], threads, sharing) for i in numbers}
        self._stopped = False
        self._unavailable: dict[int, Any] = {}  # the pending ping of each one
        self._problems: dict[int, str] = {}  # why a live shard cannot work
        self._tokens, self._views = itertools.count(1), set[int]()
        self._known: dict[tuple[int, int], int] = {}  # removed arms that a shard knows of a view
        self._forget: dict[int, deque[int]] = {i: deque() for i in numbers}
        self.whereabouts(_STARTING)

    def check(self) -> None:
        """Raise an error if the shards cannot be called; Ray would join any cluster, or hang."""
        if self._stopped:
            raise InvalidInput("this RayArmPool is closed. Open it again with RayArmPool.open.")
        if (connected_to(), this_connection()) != self._joined:
            raise ClusterUnavailable(
                f"this pool's shards are on the Ray at {self._joined[0]}, and this process "
                "has disconnected from it (ray.shutdown). Open the pool again."
            )

    def enter(self) -> int:
        """Return a token for a new pool object that uses these shards."""
        self.check()
        token = next(self._tokens)
        self._views.add(token)
        return token

    def leave(self, token: int) -> None:
        """Release a token. Sends nothing (it may run at any moment): shards learn of it later."""
        self._views.discard(token)
        for number, tokens in self._forget.items():
            if self._known.pop((number, token), 0):
                tokens.append(token)

    def stop_if_unused(self) -> None:
        """Stop the actors if no pool object uses them any more."""
        if self._views:
            return
        self._stopped = True  # before the actors stop, so that other threads get an error
        if (connected_to(), this_connection()) == self._joined:
            for actor in self.actors.values():
                ray.kill(actor, no_restart=True)
        self.actors = {}
        if self._clean is not None:
            self._clean()

    def whereabouts(self, deadline: float | None = None) -> list[Whereabouts]:
        """Return where every shard with arms runs now."""
        answers, missing = self.gather(self.send(dict.fromkeys(self.actors, Call(_here))), deadline)
        if missing and deadline is not None:
            for number in set(missing).intersection(self._problems):
                raise StorageError(self._problems[number])
            raise ClusterUnavailable(
                f"shards {', '.join(map(str, missing))} of {len(self.bounds) - 1} did not start "
                f"within {deadline:g} s. Check `ray status` and Ray's logs on the machines."
            )
        if missing:
            raise self.error(missing)
        ends = {i: self.bounds[i : i + 2].tolist() for i in answers}
        return [Whereabouts(*ends[i], *answers[i]) for i in sorted(answers)]

    def answering(self) -> list[bool]:
        """Return whether each shard responds now; always True for a shard without arms."""
        available = [number for number in self.actors if self._is_available(number)]
        responding = self._responding(available) if available else []
        for number in set(available) - set(responding):
            self._mark_unavailable(number)
        return [i in responding or i not in self.actors for i in range(len(self.bounds) - 1)]

    def send(self, calls: Mapping[int, Call]) -> Sent:
        """Send every shard its call, except unavailable shards that do not respond yet."""
        unavailable = [number for number in calls if not self._is_available(number)]
        refs = {self._send(i, call): i for i, call in calls.items() if i not in unavailable}
        return Sent(calls, refs, unavailable)

    def gather(self, sent: Sent, deadline: float | None = None) -> tuple[dict[int, Any], list[int]]:
        """Return the answers by shard, and the unavailable shards.

        A shard is unavailable if it died and did not restart before the deadline, if it neither
        answered by then nor responds to a ping, or if it cannot read its rows. If it still works
        on the call, it is waited for. An error in a task itself is raised at once.
        """
        patience = self.deadline if deadline is None else deadline
        waiting, answers, missing = dict(sent.refs), dict[int, Any](), list(sent.unavailable)
        until = dict.fromkeys(sent.refs.values(), time.monotonic() + patience)
        while waiting:
            soonest = min(until[number] for number in waiting.values())
            timeout = max(0.0, soonest - time.monotonic())
            ready, _ = ray.wait(list(waiting), timeout=timeout)
            for ref in ready:
                number = waiting.pop(ref)
                answer = self._answer(number, sent.calls[number], ref)
                if not isinstance(answer, Failed):
                    answers[number] = answer
                elif answer.ref and (not answer.died or time.monotonic() < until[number]):
                    waiting[answer.ref] = number
                else:
                    missing.append(self._mark_unavailable(number))
            late = [n for n in waiting.values() if until[n] <= time.monotonic()]
            if not ready and late:
                responding = self._responding(late)
                until.update(dict.fromkeys(responding, time.monotonic() + patience))
                gone = {ref for ref, n in waiting.items() if n in late and n not in responding}
                missing += [self._mark_unavailable(waiting.pop(ref)) for ref in gone]
        return answers, sorted(missing)

    def error(self, missing: Sequence[int]) -> ClusterUnavailable:
        """Return the error for unavailable shards, with their numbers and arms."""
        arms = sum(int(self.bounds[i + 1] - self.bounds[i]) for i in missing)
        silent = (
            f"no answer within the deadline of {self.deadline:g} s, in this call or an earlier "
            "one. Ray restarts them if it can: check `ray status`."
        )
        why = next((self._problems[i] for i in missing if i in self._problems), silent)
        return ClusterUnavailable(
            f"shards {', '.join(map(str, missing))} of {len(self.bounds) - 1}, with {arms} of "
            f"{self.bounds[-1]} arms, are unavailable: {why} Try again later, or open the pool "
            "with on_missing='partial' to search only the other shards."
        )

    def _send(self, number: int, call: Call, *, send_removed: bool = False) -> Any:
        count = len(call.removed)
        unknown = count > 0 and self._known.get((number, call.token)) != count
        removed = call.removed if send_removed or unknown else None
        forget = tuple(_drained(self._forget[number]))
        view = View(call.token, count, removed, forget)
        return self._actor(number).do.remote(call.task, view, *call.args)

    def _actor(self, number: int) -> Any:
        actor = self.actors.get(number)
        self.check()  # after the lookup: another thread may close the pool meanwhile
        return actor

    def _answer(self, number: int, call: Call, ref: Any) -> Any:
        """Return a shard's answer, or `Failed` with the call that was sent again."""
        try:
            answer = ray.get(ref)
        except exceptions.RayTaskError as error:
            raise error.cause from error
        except _LOST:
            time.sleep(_PAUSE)
            return Failed(self._send(number, call), died=True)
        if answer is None:  # it does not know the removed arms: it is new, or restarted
            return Failed(self._send(number, call, send_removed=True))
        if isinstance(answer, str):
            self._problems[number] = answer
            return Failed(None)
        if len(call.removed) and call.token in self._views:
            self._known[number, call.token] = len(call.removed)
        return answer[0]

    def _ping(self, number: int) -> Any:
        return self._actor(number).ping.options(concurrency_group="health").remote()

    def _responding(self, numbers: Sequence[int]) -> list[int]:
        pings = {self._ping(number): number for number in numbers}
        ready, _ = ray.wait(
            list(pings), num_returns=len(pings), timeout=max(_SOON, min(_RESPONSE, self.deadline))
        )
        return [pings[ref] for ref in ready if self._can_work(pings[ref], ref)]

    def _can_work(self, number: int, ping: Any) -> bool:
        """Return whether a completed ping shows that the shard can work."""
        try:
            problem: str = ray.get(ping)
        except _LOST:
            self._problems.pop(number, None)  # an earlier problem is out of date
            return False
        if problem:
            self._problems[number] = problem
        else:
            self._problems.pop(number, None)
        return not problem

    def _mark_unavailable(self, number: int) -> int:
        self._unavailable[number] = self._ping(number)
        return number

    def _is_available(self, number: int) -> bool:
        ping = self._unavailable.get(number)
        if ping is None:
            return True
        if not ray.wait([ping], timeout=0)[0]:
            return False
        if not self._can_work(number, ping):  # an old ping: the shard may be back by now
            self._unavailable[number] = ping = self._ping(number)
            if not ray.wait([ping], timeout=_SOON)[0] or not self._can_work(number, ping):
                return False
        self._unavailable.pop(number, None)
        return True


def _here(part: RowRange) -> tuple[str, int]:
    return str(ray.get_runtime_context().get_node_id()), os.getpid()


def _drained(tokens: deque[int]) -> list[int]:
    drained = []
    with suppress(IndexError):  # other threads take tokens too
        while True:
            drained.append(tokens.popleft())
    return drained
