"""The shards of a pool on a cluster: their layout, calls, retries and merged answers.

A shard is a long-lived actor that maps and searches a range of a pool's rows. It has no files of
its own: it is the rows [first, last) of an ordinary pool folder. So ids do not depend on the
number of shards. An actor that restarts, here or on another machine, loads its rows again from
the shared path. Ids in calls are relative to the first row of the shard.
"""

import itertools
import os
import shutil
import socket
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import ray
from numpy.typing import NDArray
from ray import exceptions

from nextquery import folders
from nextquery.arms import kernels
from nextquery.arms.coded import Codes
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.pool import NO_IDS, begins_with
from nextquery.arms.scan import Band, Blocks, Found, RowRange, Rows, scan_rows
from nextquery.checks import number, one_of, whole_number
from nextquery.cluster.connection import alive_nodes, connected_to, this_connection
from nextquery.errors import ClusterUnavailable, InvalidInput, StorageError
from nextquery.folders import Folder
from nextquery.vectors import compiled


class Call(NamedTuple):
    """One task for one shard, with the ids in its range that the calling pool has removed."""

    task: Callable[..., Any]
    args: tuple[Any, ...] = ()
    token: int = 0
    removed: Ids = NO_IDS


class Sent(NamedTuple):
    """Calls in progress, and the shards that were already unavailable."""

    calls: Mapping[int, Call]
    refs: dict[Any, int]
    unavailable: list[int]


class Failed(NamedTuple):
    """A call without an answer, and the call sent in its place."""

    ref: Any  # None: not sent again, because it would fail again
    died: bool = False


ROOM = 1 << 20  # bytes a shard requests: Ray spreads only actors that request a resource


class ClusterOptions(TypedDict, total=False):
    """The layout of a pool on a cluster: the options of `RayArmPool`."""

    address: str | None
    shards: int | None
    bounds: Sequence[int] | None
    threads: int | None
    deadline: float
    on_missing: str


class ShardPlan(NamedTuple):
    """A checked layout with all defaults filled in."""

    bounds: Ids
    threads: int | None
    deadline: float
    on_missing: str

    @classmethod
    def of(cls, rows: int, layout: ClusterOptions) -> "ShardPlan":
        """Return the plan for `rows` rows on the connected cluster."""
        unknown = sorted(set(layout) - ClusterOptions.__annotations__.keys())
        if unknown:
            raise InvalidInput(
                f"a RayArmPool has no option {', '.join(unknown)}. Use "
                f"{', '.join(ClusterOptions.__annotations__)}."
            )
        threads = layout.get("threads")
        return cls(
            _bounds(rows, layout.get("bounds"), layout.get("shards")),
            None if threads is None else whole_number(threads, "threads", at_least=1),
            number(layout.get("deadline", 30.0), "deadline", low=0, above_low=True),
            one_of(layout.get("on_missing", "refuse"), "on_missing", ("refuse", "partial")),
        )


def _bounds(rows: int, given: Sequence[int] | None, count: int | None) -> Ids:
    """Return where shards start and end; by default there is one per machine."""
    if given is None:
        machines = len({node["NodeManagerAddress"] for node in nodes_with_room()})
        shards = machines if count is None else whole_number(count, "shards", at_least=1)
        return np.linspace(0, rows, shards + 1).astype(np.int64)
    bounds = np.asarray(given)
    whole = bounds.ndim == 1 and len(bounds) > 1 and bounds.dtype.kind in "iu"
    in_order = whole and (bounds[1:] >= bounds[:-1]).all()
    valid = in_order and bounds[0] == 0 and bounds[-1] == rows
    if not valid or count not in (None, len(bounds) - 1):
        raise InvalidInput(
            f"bounds must rise from 0 to {rows}, with one more bound than shards; received "
            f"{given!r} and shards={count!r}."
        )
    return bounds.astype(np.int64)


def nodes_with_room() -> list[dict[str, Any]]:
    """Return the nodes that Ray may place a shard on."""
    nodes = [node for node in alive_nodes() if node["Resources"].get("memory", 0) >= ROOM]
    if not nodes:
        raise ClusterUnavailable(
            f"no node of the cluster offers Ray {ROOM} bytes of memory, which a shard needs. "
            "Start a node without --memory, or with a larger value."
        )
    return nodes


def scratch_folder() -> Path:
    """Create a temporary folder for a pool; raises an error if the cluster has other machines."""
    here = ray.util.get_node_ip_address()
    others = {node["NodeManagerAddress"] for node in alive_nodes()} - {here}
    if others:
        raise InvalidInput(
            f"the cluster has other machines ({', '.join(sorted(others))}), which cannot read a "
            "temporary folder here. Pass path, a folder that all nodes can read."
        )
    return Path(tempfile.mkdtemp(prefix="nextquery-pool-"))


class Flat(NamedTuple):
    """One shard's results for several anchors, concatenated: 12 bytes per arm."""

    counts: NDArray[np.int32]
    ids: NDArray[np.uint32]  # relative to the shard's first id
    similarities: Floats

    @classmethod
    def of(cls, found: Sequence[Found]) -> "Flat":
        """Concatenate the results of all anchors."""
        return cls(
            np.array([len(row.ids) for row in found], np.int32),
            np.concatenate([np.empty(0, np.int64), *(row.ids for row in found)]).astype(np.uint32),
            np.concatenate([np.empty(0), *(row.similarities for row in found)]),
        )


class Hidden(NamedTuple):
    """The excluded arms of several anchors that are in one shard."""

    counts: NDArray[np.int32]  # by anchor; empty if nothing is hidden
    ids: Ids

    @classmethod
    def of(cls, exclude: Sequence[Ids], bounds: Ids) -> "list[Hidden]":
        """Return what each shard, between its two bounds, must hide.

        >>> exclude = [np.array([1, 4]), np.array([5])]
        >>> [hidden.ids.tolist() for hidden in Hidden.of(exclude, np.array([0, 4, 6]))]
        [[1], [0, 1]]
        """
        sizes = [len(ids) for ids in exclude]
        ids = np.concatenate([np.empty(0, np.int64), *exclude])
        anchor = np.repeat(np.arange(len(sizes)), sizes)
        parts = []
        for first, last in pairwise(bounds.tolist()):
            inside = (ids >= first) & (ids < last)
            counts = np.bincount(anchor[inside], minlength=len(sizes) if inside.any() else 0)
            parts.append(cls(counts.astype(np.int32), ids[inside] - first))
        return parts

    def per_anchor(self, anchors: int) -> list[Ids]:
        """Return one array of ids per anchor."""
        if not len(self.counts):
            return [self.ids] * anchors
        return np.split(self.ids, np.cumsum(self.counts)[:-1])


def merged(parts: Sequence[tuple[int, Flat]], k: int | None, missing: int = 0) -> list[Found]:
    """Return the k best of each anchor by (−similarity, id), from shards that start at these ids.

    >>> near, far = Flat.of([Found(np.array([1]), np.array([0.5]))]), Flat.of(
    ...     [Found(np.array([0]), np.array([0.9]))])
    >>> merged([(0, near), (2, far)], k=2)[0].ids.tolist()
    [2, 1]
    """
    anchors = len(parts[0][1].counts)
    places = np.arange(anchors, dtype=np.int32)
    rows = np.concatenate([np.repeat(places, flat.counts) for _, flat in parts])
    ids = np.concatenate([flat.ids.astype(np.int64) + first for first, flat in parts])
    scores = np.concatenate([flat.similarities for _, flat in parts])
    counts = np.empty(anchors, np.int64)
    best = np.empty(len(ids), np.int64), np.empty(len(ids))
    no_bounds = np.full(anchors, -np.inf), np.full(anchors, np.inf)
    most = len(ids) if k is None else k
    used = compiled(kernels.in_order)(rows, ids, scores, *no_bounds, most, counts, *best)
    ends = np.cumsum(counts)[:-1]
    pairs = zip(np.split(best[0][:used], ends), np.split(best[1][:used], ends), strict=True)
    return [Found(*pair, missing) for pair in pairs][:anchors]


def scan(
    part: RowRange, anchors: Vectors, bands: Sequence[Band], hidden: Hidden, epsilon: float | None
) -> tuple[list[Flat], Floats | None]:
    """Return the best arms of every band, by anchor, and (with `epsilon`) Σ and Σ≥."""
    exclude = hidden.per_anchor(len(anchors))
    found, sums = scan_rows(
        part.rows, part.removed, anchors, bands, exclude=exclude, epsilon=epsilon
    )
    flat = [Flat.of([row[place] for row in found]) for place in range(len(bands))]
    return flat, None if sums is None else np.stack([sums.total, sums.similar])


def rows(part: RowRange, ids: Ids) -> Vectors:
    """Return the vectors of a few arms."""
    return _blocks(part).rows(ids)


def score(part: RowRange, ids: Ids, anchor: Vectors) -> Floats:
    """Return the exact similarities of a few arms to one anchor."""
    return _blocks(part).score(ids, anchor)


def _blocks(part: RowRange) -> Blocks:
    return Blocks(part.rows.segments(), part.removed)


class Share(NamedTuple):
    """The folder and range of rows of a shard."""

    folder: folders.Folder
    first: int
    last: int

    def load(self) -> Rows:
        """Map the rows; rows that are never read use no memory.

        Files are named after their content. If this shard's file is gone, the pool was saved
        again, and the new manifest shows whether its rows start with the same ones.
        """
        try:
            exists = self.folder.file("vectors.npy").exists()
            folder = self.folder if exists else folders.newest(self.folder)
            same = begins_with(folder, self.folder)
            vectors = folder.array("vectors.npy")[self.first : self.last]
            codes = Codes.open(folder)
        except (OSError, EOFError, ValueError, KeyError) as error:
            raise StorageError(
                f"{socket.gethostname()} cannot read arms {self.first} to {self.last - 1} of the "
                f"pool {self.folder.path}: {error} Put the pool on a path that every node of the "
                "cluster can read under the same name."
            ) from error
        if not same or len(vectors) != self.last - self.first:
            raise StorageError(
                f"the pool {self.folder.path}, as {socket.gethostname()} sees it, is not the one "
                "that was opened, with or without added arms. Open the pool again."
            )
        return Rows(vectors, None if codes is None else codes.cut(self.first, self.last))


class View(NamedTuple):
    """The arms that a pool object has removed: pools share shards, but not removals.

    The removed arms of a view only grow, so their number in this shard, `how_many`, identifies the
    version. `removed` is sent if the shard may not know them; `forget` lists views that ended.
    """

    token: int
    how_many: int
    removed: Ids | None = None
    forget: tuple[int, ...] = ()


class Shard:
    """The actor. It runs tasks, which are functions of a `Part`, next to the rows.

    Nothing is loaded before the first task or ping, so that an error in the files is returned and
    does not kill the actor.
    """

    def __init__(self, share: Share, threads: int | None = None, sharing: int = 1) -> None:
        self._share = share
        self._rows: Rows | None = None
        self._views: dict[int, Ids] = {}
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        use_threads(threads or max(1, (cores or 1) // sharing))
        warm_up()

    def ping(self) -> str:
        """Return at once, also during a task: an empty string, or why no task can run."""
        try:
            self._load()
        except StorageError as error:
            return str(error)
        return ""

    def do(self, task: Callable[..., Any], view: View, *args: Any) -> tuple[Any] | str | None:
        """Run a task: return (answer,), None if `removed` must be sent, or why it cannot run."""
        for token in view.forget:
            self._views.pop(token, None)
        if view.removed is not None:
            self._views[view.token] = view.removed - self._share.first
        removed = self._views.get(view.token, NO_IDS) if view.how_many else NO_IDS
        if len(removed) != view.how_many:
            return None
        try:
            rows = self._load()
        except StorageError as error:
            return str(error)
        return (task(RowRange(rows, self._share.first, removed), *args),)

    def _load(self) -> Rows:
        if self._rows is None:
            self._rows = self._share.load()
        return self._rows


def use_threads(count: int) -> None:
    """Set the number of threads of BLAS, and so of the scan; Ray starts workers with one."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=count, user_api="blas")


def warm_up() -> None:
    """Load the scan's compiled code, which takes seconds, before the first ping is answered."""
    rows = np.ones((2, 2), np.float32)
    coded = Rows(rows, Codes.of(rows))
    for count, epsilon in (1, None), (1, 0.5), (2, 0.5):
        exclude = [NO_IDS] * count
        scan_rows(coded, NO_IDS, rows[:count], [Band(1)], exclude=exclude, epsilon=epsilon)


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
        for shard, tokens in self._forget.items():
            if self._known.pop((shard, token), 0):
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
            for shard in set(missing).intersection(self._problems):
                raise StorageError(self._problems[shard])
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
        available = [shard for shard in self.actors if self._is_available(shard)]
        responding = self._responding(available) if available else []
        for shard in set(available) - set(responding):
            self._mark_unavailable(shard)
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
                lost = {ref for ref, n in waiting.items() if n in late and n not in responding}
                missing += [self._mark_unavailable(waiting.pop(ref)) for ref in lost]
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
