"""The set of shards: ask them all, ask again who fell, and say who stays away."""

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
from nextquery.arms.rows import Part
from nextquery.cluster.calls import Call, Fell, Sent
from nextquery.cluster.connection import connected_to, this_connection
from nextquery.cluster.layout import ROOM, nodes_with_room
from nextquery.cluster.shard import Shard, Share, View, warm_up
from nextquery.errors import ClusterUnavailable, InvalidInput, StorageError
from nextquery.folders import Folder

_LOST = (  # what an actor, its worker or its machine says by dying
    exceptions.RayActorError,
    exceptions.ObjectLostError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
    exceptions.RpcError,
)
_PAUSE = 0.05  # seconds before a call is sent again
_STARTING = 120.0  # seconds for actors to start at all
_RESPONSE = 5.0  # seconds in which an actor that lives answers a ping, or fewer by the deadline
_SOON = 0.5  # but never fewer than these


class Whereabouts(NamedTuple):
    """Which arms a shard holds, and where it runs."""

    first: int
    last: int
    node: str
    pid: int


class Shards:
    """Resident actors, one for each range of rows that is not empty.

    They ask for no CPU, so that all of them start on a small machine, and Ray restarts them for
    ever, elsewhere when their machine is gone.

    Parameters
    ----------
    folder : an opened pool folder.
    bounds : where shards begin and end, rising from 0 to the number of rows.
    deadline : seconds after which a shard that does not answer is away.
    threads : threads of each shard; by default it shares its machine's cores with the others there.
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
        held = [number for number, share in enumerate(shares) if share.first < share.last]
        kind = ray.remote(
            num_cpus=0,
            memory=ROOM,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            concurrency_groups={"health": 1},
        )(Shard)
        warm_up()  # compiled once here, and not by all shards of this machine at the same time
        sharing = max(1, -(-len(held) // len(nodes_with_room())))
        self.actors = {i: kind.remote(shares[i], threads, sharing) for i in held}
        self._stopped = False
        self._away: dict[int, Any] = {}  # a ping under way for each of them
        self._unable: dict[int, str] = {}  # why one of them lives and can do nothing
        self._tokens, self._views = itertools.count(1), set[int]()
        self._told: dict[tuple[int, int], int] = {}
        self._forget: dict[int, deque[int]] = {i: deque() for i in held}
        self.whereabouts(_STARTING)

    def check(self) -> None:
        """Raise where nobody can be asked; Ray itself would join any cluster it finds, or hang."""
        if self._stopped:
            raise InvalidInput("this RayArmPool is closed. Open it again with RayArmPool.open.")
        if (connected_to(), this_connection()) != self._joined:
            raise ClusterUnavailable(
                f"this pool's shards are on the Ray at {self._joined[0]}, from which this process "
                "has been disconnected since (ray.shutdown). Open the pool again."
            )

    def enter(self) -> int:
        """A token for one more pool object that uses these shards."""
        self.check()
        token = next(self._tokens)
        self._views.add(token)
        return token

    def leave(self, token: int) -> None:
        """One user less. Sends nothing (it may run at any moment): shards hear of it later."""
        self._views.discard(token)
        for number, tokens in self._forget.items():
            if self._told.pop((number, token), 0):
                tokens.append(token)

    def stop_if_unused(self) -> None:
        """End the actors when no pool object uses them any more."""
        if self._views:
            return
        self._stopped = True  # before the actors go: threads that still ask are told
        if (connected_to(), this_connection()) == self._joined:
            for actor in self.actors.values():
                ray.kill(actor, no_restart=True)
        self.actors = {}
        if self._clean is not None:
            self._clean()

    def whereabouts(self, deadline: float | None = None) -> list[Whereabouts]:
        """Where every shard that holds arms runs now."""
        answers, missing = self.gather(self.send(dict.fromkeys(self.actors, Call(_here))), deadline)
        if missing and deadline is not None:
            for number in set(missing).intersection(self._unable):
                raise StorageError(self._unable[number])
            raise ClusterUnavailable(
                f"shards {', '.join(map(str, missing))} of {len(self.bounds) - 1} did not start "
                f"within {deadline:g} s. Look at `ray status` and the logs of Ray on the machines."
            )
        if missing:
            raise self.refusal(missing)
        ends = {i: self.bounds[i : i + 2].tolist() for i in answers}
        return [Whereabouts(*ends[i], *answers[i]) for i in sorted(answers)]

    def answering(self) -> list[bool]:
        """Whether each shard responds now; one that holds no arms has nothing to say, and does."""
        asked = [number for number in self.actors if self._is_back(number)]
        heard = self._responding(asked) if asked else []
        for number in set(asked) - set(heard):
            self._is_away(number)
        return [i in heard or i not in self.actors for i in range(len(self.bounds) - 1)]

    def send(self, calls: Mapping[int, Call]) -> Sent:
        """Send every shard its call. A shard that was away is asked only once it responds."""
        away = [number for number in calls if not self._is_back(number)]
        refs = {self._send(i, call): i for i, call in calls.items() if i not in away}
        return Sent(calls, refs, away)

    def gather(self, sent: Sent, deadline: float | None = None) -> tuple[dict[int, Any], list[int]]:
        """The answers by shard, and the shards that stayed away.

        A shard is away when it fell and is not back before the deadline, when it has neither
        answered by then nor responds to a ping, or when it cannot read its rows. One that works
        longer is waited for. An error in a task itself is raised at once.
        """
        patience = self.deadline if deadline is None else deadline
        waiting, answers, missing = dict(sent.refs), dict[int, Any](), list(sent.away)
        until = dict.fromkeys(sent.refs.values(), time.monotonic() + patience)
        while waiting:
            soonest = min(until[number] for number in waiting.values())
            timeout = max(0.0, soonest - time.monotonic())
            ready, _ = ray.wait(list(waiting), timeout=timeout)
            for ref in ready:
                number = waiting.pop(ref)
                answer = self._answer(number, sent.calls[number], ref)
                if not isinstance(answer, Fell):
                    answers[number] = answer
                elif answer.ref and (not answer.died or time.monotonic() < until[number]):
                    waiting[answer.ref] = number
                else:
                    missing.append(self._is_away(number))
            late = [n for n in waiting.values() if until[n] <= time.monotonic()]
            if not ready and late:
                responding = self._responding(late)
                until.update(dict.fromkeys(responding, time.monotonic() + patience))
                gone = {ref for ref, n in waiting.items() if n in late and n not in responding}
                missing += [self._is_away(waiting.pop(ref)) for ref in gone]
        return answers, sorted(missing)

    def refusal(self, missing: Sequence[int]) -> ClusterUnavailable:
        """The error that says which shards are away and what they hold."""
        held = sum(int(self.bounds[i + 1] - self.bounds[i]) for i in missing)
        silent = (
            f"no answer within the deadline of {self.deadline:g} s, now or when they were asked "
            "before. Ray restarts them by itself where it can: look at `ray status`."
        )
        why = next((self._unable[i] for i in missing if i in self._unable), silent)
        return ClusterUnavailable(
            f"shards {', '.join(map(str, missing))} of {len(self.bounds) - 1}, which hold {held} "
            f"of {self.bounds[-1]} arms, are away: {why} Ask again later; searches of a pool that "
            "was opened with on_missing='partial' are answered from the others."
        )

    def _send(self, number: int, call: Call, *, tell: bool = False) -> Any:
        count = len(call.removed)
        unknown = count > 0 and self._told.get((number, call.token)) != count
        removed = call.removed if tell or unknown else None
        forget = tuple(_drained(self._forget[number]))
        view = View(call.token, count, removed, forget)
        return self._actor(number).do.remote(call.task, view, *call.args)

    def _actor(self, number: int) -> Any:
        actor = self.actors.get(number)
        self.check()  # afterwards: another thread may close the pool just now
        return actor

    def _answer(self, number: int, call: Call, ref: Any) -> Any:
        """What a shard answered, or `Fell` with the call sent again."""
        try:
            answer = ray.get(ref)
        except exceptions.RayTaskError as error:
            raise error.cause from error
        except _LOST:
            time.sleep(_PAUSE)
            return Fell(self._send(number, call), died=True)
        if answer is None:  # it does not know what is removed: it is new, or started anew
            return Fell(self._send(number, call, tell=True))
        if isinstance(answer, str):
            self._unable[number] = answer
            return Fell(None)
        if len(call.removed) and call.token in self._views:
            self._told[number, call.token] = len(call.removed)
        return answer[0]

    def _ping(self, number: int) -> Any:
        return self._actor(number).ping.options(concurrency_group="health").remote()

    def _responding(self, numbers: Sequence[int]) -> list[int]:
        pings = {self._ping(number): number for number in numbers}
        ready, _ = ray.wait(
            list(pings), num_returns=len(pings), timeout=max(_SOON, min(_RESPONSE, self.deadline))
        )
        return [pings[ref] for ref in ready if self._heard(pings[ref], ref)]

    def _heard(self, number: int, ping: Any) -> bool:
        """Whether a ping that has ended says that the shard can work."""
        try:
            problem: str = ray.get(ping)
        except _LOST:
            self._unable.pop(number, None)  # whatever it said, it is another matter now
            return False
        if problem:
            self._unable[number] = problem
        else:
            self._unable.pop(number, None)
        return not problem

    def _is_away(self, number: int) -> int:
        self._away[number] = self._ping(number)
        return number

    def _is_back(self, number: int) -> bool:
        ping = self._away.get(number)
        if ping is None:
            return True
        if not ray.wait([ping], timeout=0)[0]:
            return False
        if not self._heard(number, ping):  # that was then, and it may be back by now
            self._away[number] = ping = self._ping(number)
            if not ray.wait([ping], timeout=_SOON)[0] or not self._heard(number, ping):
                return False
        self._away.pop(number, None)
        return True


def _here(part: Part) -> tuple[str, int]:
    return str(ray.get_runtime_context().get_node_id()), os.getpid()


def _drained(tokens: deque[int]) -> list[int]:
    found = []
    with suppress(IndexError):  # other threads take from it, too
        while True:
            found.append(tokens.popleft())
    return found
