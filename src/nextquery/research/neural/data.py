"""Training data of the neural rivals: sessions by the clock, items, batches and losses.

- *Items* are rows of a network: projections of their text vectors, rows of their own, or both.
- *Batches* are padded rows of items. In session-parallel batches, each lane reads one session
  after another, one query per step.
- *Losses* are the two of GRU4Rec, over one target and many negatives in every row.
- *Adagrad* is as in GRU4Rec: with momentum, and only the rows of a batch move.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from nextquery.arms import ArmPool
from nextquery.build.ingest import held_out_of, not_held_out
from nextquery.encode.train.model import Split
from nextquery.encode.train.objectives import data_hash
from nextquery.errors import InvalidInput
from nextquery.segments import text_of
from nextquery.sessions import Ids, Sessions


class Adagrad(torch.optim.Optimizer):  # type: ignore[misc]
    """Divide each step by the root of the sum of squared gradients so far.

    With g a gradient: a ← a + g², v ← momentum·v − rate·g/√(a + ε), weight ← weight + v. Of a
    sparse gradient only the rows in it take part, in v as well. (torch's own Adagrad adds ε to the
    root, and has no momentum.)

    Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization", JMLR 2011.
    """

    def __init__(self, groups: Any, *, momentum: float = 0.0, eps: float = 1e-6) -> None:
        super().__init__(groups, {"lr": 0.0, "momentum": momentum, "eps": eps})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Any = None) -> None:
        """Take a step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["squares"] = torch.zeros_like(weight)
                    if group["momentum"]:
                        state["speed"] = torch.zeros_like(weight)
                self._move(weight, state, group)

    def _move(self, weight: Any, state: Any, group: Any) -> None:
        gradient, rows = weight.grad, slice(None)
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            rows, gradient = gradient.indices()[0], gradient.values()
        squares = state["squares"][rows] + gradient**2
        change = -group["lr"] * gradient / (squares + group["eps"]).sqrt()
        state["squares"][rows] = squares
        if group["momentum"]:
            change = change + group["momentum"] * state["speed"][rows]
            state["speed"][rows] = change
        weight[rows] += change


class Batch(NamedTuple):
    """Sessions as padded rows, on the device.

    Row i of `items` has the session's queries but the last, padded at the end with item 0; `steps`
    flags the others. `targets` are the queries that came next, one for each flag, row by row.
    """

    items: Any
    steps: Any
    targets: Any


def batch_of(sessions: Sessions, which: Ids, *, length: int, device: Any) -> Batch:
    """Return the sessions `which`, each with its newest `length` queries that have a next one.

    >>> made = batch_of(Sessions.of([[5, 6, 7], [8, 9]]), np.array([0, 1]), length=9, device="cpu")
    >>> made.items.tolist(), made.targets.tolist()
    ([[5, 6], [8, 0]], [6, 7, 9])
    """
    places, steps = places_of(sessions, which, length)
    items = np.where(steps, sessions.arms[places], 0)
    targets = sessions.arms[(places + 1)[steps]]
    arrays = (items, steps, targets)
    return Batch(*(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays))


def places_of(sessions: Sessions, which: Ids, length: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Return where these queries are in the row of all, and which of them are no padding."""
    ends = sessions.offsets[which + 1]
    sizes = np.minimum(sessions.lengths[which] - 1, length)
    width = np.arange(int(sizes.max()))
    steps = width < sizes[:, None]
    return np.where(steps, (ends - 1 - sizes)[:, None] + width, 0), steps


class Shuffled:
    """Which sessions a step reads: all of them once an epoch, in an order drawn for it."""

    def __init__(self, sessions: int, batch: int, seed: int) -> None:
        self._sessions, self._batch, self._seed = sessions, batch, seed
        self.per_epoch = -(-sessions // batch)
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def of_step(self, step: int) -> Ids:
        """Return the numbers of the sessions of a step.

        >>> shuffled = Shuffled(5, 2, seed=0)
        >>> sorted(np.concatenate([shuffled.of_step(step) for step in (3, 4, 5)]).tolist())
        [0, 1, 2, 3, 4]
        """
        epoch, at = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng([self._seed, 8, epoch])
            self._epoch, self._order = epoch, rng.permutation(self._sessions)
        return self._order[at * self._batch : (at + 1) * self._batch]


class ShownSlates(NamedTuple):
    """What was recommended at every query of some sessions, for methods that learn from clicks.

    Parameters
    ----------
    accepted : of every query, whether it was recommended and accepted.
    shown : items that were recommended and not accepted; those at the query at place p are
        ``shown[offsets[p]:offsets[p + 1]]``.
    """

    accepted: NDArray[np.bool_]
    shown: Ids
    offsets: Ids


class TrainingData(NamedTuple):
    """The part of a log that may be learnt from.

    Items are the queries asked in it, numbered from 0; queries asked only later do not exist here,
    not even as negatives. In sessions, a query that repeats the one just before it is the same one.

    Parameters
    ----------
    texts : the items' texts.
    arms : the items' arms in the pool, ascending.
    vectors : the items' vectors in the pool, unit rows.
    training : sessions of two or more queries, as items; nothing in them is dated after the first
        validation session began.
    validation : the newest of these sessions, or random ones if the log has no times.
    knows_until : nothing here is dated at or after this Unix time; None: no times.
    hidden : number of newest sessions of the log that are not here.
    slates, validation_slates : what was recommended in the training and validation sessions, if
        they come from the service's own log.
    """

    texts: Sequence[str]
    arms: Ids
    vectors: NDArray[np.float32]
    training: Sessions
    validation: Sessions
    knows_until: float | None
    hidden: int = 0
    slates: ShownSlates | None = None
    validation_slates: ShownSlates | None = None

    @classmethod
    def of(
        cls, pool: ArmPool, *, until: float | None = None, hold_out: int = 0, seed: int = 0
    ) -> Self:
        """Return what may be learnt from a pool's log.

        Parameters
        ----------
        until : only what is dated before this Unix time; the log must have times.
        hold_out : number of newest sessions of two or more queries (at most half) to leave out.
            Without `until`, those that the pool holds out for replays are left out too.
        seed : draws the validation sessions if the log has no times.
        """
        known, hidden = _known(pool, until, hold_out)
        timed = known.timed
        split = Split.of(known.without_repeats(), timed=timed, seed=seed, repeats=True)
        training, validation = split
        if timed:
            begun = float(validation.asked[validation.offsets[:-1]].min())
            training = training.before(begun)
            training = training.take(np.flatnonzero(training.lengths >= 2))
            if not training.size:
                raise InvalidInput(
                    "no session has a next query before the validation sessions begin. Use a "
                    "longer log, or a later --until."
                )
        arms = np.unique(known.arms)
        number = np.zeros(int(arms.max(initial=0)) + 1, np.int64)
        number[arms] = np.arange(len(arms))
        return cls(
            [text_of(pool.texts[arm]) for arm in arms.tolist()],
            arms,
            np.asarray(pool.vectors[arms], np.float32),
            training._replace(arms=number[training.arms]),
            validation._replace(arms=number[validation.arms]),
            float(np.nextafter(known.asked.max(), np.inf)) if timed else None,
            hidden,
        )

    @property
    def sha256(self) -> str:
        """A hash of everything that is learnt from."""
        digest = hashlib.sha256(data_hash(self.texts, self.training).encode())
        digest.update(data_hash((), self.validation).encode() + self.vectors.tobytes())
        for slates in (self.slates, self.validation_slates):
            for array in slates or ():
                digest.update(array.tobytes() + b"\n")
        return digest.hexdigest()

    @property
    def counts(self) -> Ids:
        """How often each item occurs in the training sessions."""
        return np.bincount(self.training.arms, minlength=len(self.texts))


def _known(pool: ArmPool, until: float | None, hold_out: int) -> tuple[Sessions, int]:
    """Return the sessions that may be learnt from, in order of time, and how many are left out."""
    origin = pool.origin
    if origin is None or not origin.sessions.size:
        raise InvalidInput(
            "this pool has no sessions to learn from: it was not made of a log. Make one with "
            "nextquery ingest LOG --out POOL."
        )
    hidden = held_out_of(origin.sessions, hold_out, warm=0)
    if until is None:
        hidden = max(hidden, origin.for_replays)
    known = not_held_out(origin, hidden)
    if until is None:
        return known, hidden
    if not known.timed:
        raise InvalidInput(
            "this log does not have the time of every query, so there is no 'until'. Make the pool "
            "again from a log with times (--time names the column), or leave out --until."
        )
    before = known.before(until)
    if not before.size:
        raise InvalidInput("nothing in this log is dated before --until. Pass a later date.")
    return before, hidden + known.size - before.size


class Items(nn.Module):  # type: ignore[misc]
    """A row for every item.

    Parameters
    ----------
    data : the items and their vectors.
    width : entries of a row.
    kind : ``text``, ``learned`` or ``both``.
    sparse : whether the gradient of the rows learnt is sparse; not every optimizer can use it.
    """

    def __init__(self, data: TrainingData, width: int, kind: str, *, sparse: bool) -> None:
        super().__init__()
        self.width, size = width, len(data.texts)
        self.projection = self.table = None
        if kind != "learned":
            self.register_buffer("vectors", torch.from_numpy(data.vectors), persistent=False)
            self.projection = nn.Linear(data.vectors.shape[1], width, bias=False)
            uniform(self.projection.weight)
        if kind != "text":
            self.table = nn.Embedding(size, width, sparse=sparse)
            if kind == "both":
                nn.init.zeros_(self.table.weight)
            else:
                uniform(self.table.weight)

    def forward(self, items: Any) -> Any:
        """Return the rows of these items."""
        rows: Any = 0.0
        if self.projection is not None:
            rows = self.projection(self.vectors[items])
        if self.table is not None:
            rows = rows + self.table(items)
        return rows

    def every(self) -> Any:
        """Return the rows of all items; the gradient is dense."""
        rows: Any = 0.0
        if self.projection is not None:
            rows = self.projection(self.vectors)
        if self.table is not None:
            rows = rows + self.table.weight
        return rows

    def arrays(self, side: str, learned_items: Any) -> dict[str, Any]:
        """Return the arrays to serve it with; `learned_items` have rows of their own."""
        arrays = {}
        if self.projection is not None:
            arrays[f"{side}_weight"] = self.projection.weight.detach().cpu().numpy()
        if self.table is not None:
            rows = self.table.weight.detach().cpu().numpy()
            arrays[f"{side}_table"] = np.ascontiguousarray(rows[learned_items])
        return arrays


class TextVectors(nn.Module):  # type: ignore[misc]
    """The pool's own vectors as the rows of items: nothing of them is learnt."""

    def __init__(self, data: TrainingData) -> None:
        super().__init__()
        self.width = data.vectors.shape[1]
        self.register_buffer("vectors", torch.from_numpy(data.vectors), persistent=False)

    def forward(self, items: Any) -> Any:
        """Return the vectors of these items."""
        return self.vectors[items]

    def every(self) -> Any:
        """Return the vectors of all items."""
        return self.vectors

    def arrays(self, side: str, learned_items: Any) -> dict[str, Any]:
        """Return no arrays: the pool has the vectors."""
        return {}


def uniform(weight: Any) -> None:
    """Fill a matrix uniformly in ±√(6/(rows + columns)) (Glorot and Bengio, 2010)."""
    limit = math.sqrt(6.0 / sum(weight.shape))
    nn.init.uniform_(weight, -limit, limit)


class LaneStep(NamedTuple):
    """One step of an epoch.

    `lanes` are those that still read, `places` the query of each in the row of all sessions (the
    next one is its target), `fresh` flags lanes that begin a session, whose state is zero.
    """

    lanes: Ids
    places: Ids
    fresh: NDArray[np.bool_]


def lane_steps(sessions: Sessions, lanes: int, *, fewest: int = 1) -> Iterator[LaneStep]:
    """Yield the steps of an epoch, over sessions of two or more queries, in their order.

    A lane that is done takes the next session. At the end lanes fall idle; with fewer than
    `fewest` left, the epoch ends.

    >>> steps = lane_steps(Sessions.of([[0, 1, 2], [3, 4], [5, 6]]), 2)
    >>> [(step.lanes.tolist(), step.places.tolist(), step.fresh.tolist()) for step in steps]
    [([0, 1], [0, 3], [True, True]), ([0, 1], [1, 5], [False, True])]

    Hidasi et al., "Session-based Recommendations with Recurrent Neural Networks", ICLR 2016,
    section 3.1.1.
    """
    starts, ends = sessions.offsets[:-1], sessions.offsets[1:]
    lane = np.arange(min(lanes, sessions.size))
    begun, place, end = len(lane), starts[lane], ends[lane]
    fresh = np.ones(len(lane), bool)
    while len(lane) >= max(1, fewest):
        yield LaneStep(lane, place, fresh)
        place = place + 1
        fresh = place + 1 >= end
        done = np.flatnonzero(fresh)
        following = begun + np.arange(len(done))
        begun += len(done)
        more = following < sessions.size
        place[done[more]], end[done[more]] = starts[following[more]], ends[following[more]]
        stays = np.ones(len(lane), bool)
        stays[done[~more]] = False
        lane, place, end, fresh = lane[stays], place[stays], end[stays], fresh[stays]


_TINY = 1e-24


def cross_entropy(scores: Any) -> Any:
    """Return the sum of −log softmax of the targets; row i has its target in column i.

    >>> round(float(cross_entropy(torch.zeros(2, 4))), 4)  # two rows, each 1 of 4
    2.7726
    """
    return functional.cross_entropy(scores, _own(scores), reduction="sum")


def bpr_max(scores: Any, *, elu: float, regularisation: float) -> Any:
    """Return the sum of BPR-max over the rows; row i has its target in column i.

    With w the softmax of the negatives' scores s_j: −log Σ w_j·σ(s_target − s_j) +
    `regularisation`·Σ w_j·s_j². With `elu` above 0, scores first pass through an ELU.

    >>> scores = torch.tensor([[1.0, 0.0]])
    >>> round(float(bpr_max(scores, elu=0, regularisation=1)), 4)  # -log sigmoid(1)
    0.3133

    Hidasi and Karatzoglou (2018), section 3.3.2.
    """
    if elu > 0:
        scores = functional.elu(scores, elu)
    rows = _own(scores)
    target = scores[rows, rows][:, None]
    negatives = torch.ones_like(scores, dtype=torch.bool)
    negatives[rows, rows] = False
    weights = scores.masked_fill(~negatives, float("-inf")).softmax(dim=1)
    better = (torch.sigmoid(target - scores) * weights).sum(dim=1)
    small = (scores**2 * weights).sum(dim=1)
    return (regularisation * small - torch.log(better + _TINY)).sum()


def _own(scores: Any) -> Any:
    return torch.arange(len(scores), device=scores.device)
