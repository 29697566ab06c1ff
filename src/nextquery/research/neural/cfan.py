"""CFAN: two recurrent networks, over a session's queries and its accepted recommendations.

It learns from recommendations that were shown and accepted, in an export of the service's log.

With z the network's vector of the session, a query with row v scores z·v + its bias. The loss is
pairwise: the mean of −log σ(s(next) − s(other)). The others are drawn queries, and the
recommendations that were shown and not accepted. The vectors x of a session are then moved by
ε·g/|g|, with g the gradient of the loss by x (the fast gradient method). The loss of these
adversarial examples is added.

Departures from the paper:

- Rows are projections of our text vectors.
- There is one layer of GRUs each, without attention.
- The next query is the one asked next, accepted or typed; the negatives are those of our own log.

Li, Li, Wu, Zhou and Wang, "Click Feedback-Aware Query Recommendation Using Adversarial Examples",
WWW 2019.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from nextquery.arms import ArmPool
from nextquery.encode.train.export import exported
from nextquery.encode.train.loop import Note
from nextquery.encode.train.model import FEWEST, HELD_OUT
from nextquery.encode.transformers import runner
from nextquery.errors import InvalidInput
from nextquery.research.neural.data import (
    Batch,
    Items,
    ShownSlates,
    Shuffled,
    TrainingData,
    batch_of,
    places_of,
)
from nextquery.research.neural.gru4rec import Recurrent
from nextquery.research.neural.registry import CfanOptions
from nextquery.research.neural.sasrec import NextItemModule, NextItemTask
from nextquery.research.neural.serve import ACCEPTED, NETWORK, OUT, SESSION
from nextquery.research.neural.task import Scored, apart
from nextquery.sessions import Ids, Sessions


class ClickBatch(NamedTuple):
    """Sessions as padded rows, on the device.

    Row i of `accepted` has the items that session i accepted, in order, and `upto` says of each of
    its queries how many of them it has by then. `shown` are the items that each step with a next
    query must rank behind it, one row a step, where `real` is set.
    """

    batch: Batch
    accepted: Any
    upto: Any
    shown: Any
    real: Any


def click_batch(
    sessions: Sessions, slates: ShownSlates, which: Ids, drawn: Ids, *, length: int, device: Any
) -> ClickBatch:
    """Return the sessions `which`; `drawn` are further items for each step, (steps, n) or (1, n).

    >>> sessions = Sessions.of([[5, 6, 7]])
    >>> accepted, starts = np.array([False, True, False]), np.array([0, 1, 2, 2])
    >>> slates = ShownSlates(accepted, np.array([8, 9]), starts)
    >>> made = click_batch(sessions, slates, np.array([0]), np.array([[7]]), length=9, device="cpu")
    >>> made.accepted.tolist(), made.upto.tolist()
    ([[6]], [[0, 1]])
    >>> made.shown.tolist(), made.real.tolist()
    ([[8, 7], [9, 7]], [[True, True], [True, False]])
    """
    batch = batch_of(sessions, which, length=length, device=device)
    places, steps = places_of(sessions, which, length)
    flags = slates.accepted[places] & steps
    taken = _first(sessions.arms[places], flags)
    own = places[steps]
    sizes = slates.offsets[own + 1] - slates.offsets[own]
    width = np.arange(int(sizes.max(initial=0)))
    real = width < sizes[:, None]
    at = np.where(real, slates.offsets[own][:, None] + width, 0)
    shown = slates.shown[at] if len(slates.shown) else np.zeros(at.shape, np.int64)
    drawn = np.broadcast_to(drawn, (len(own), drawn.shape[1]))
    shown = np.concatenate([np.where(real, shown, 0), drawn], axis=1)
    real = np.concatenate([real, np.ones(drawn.shape, bool)], axis=1)
    real &= shown != sessions.arms[own + 1][:, None]
    arrays = (taken, flags.cumsum(axis=1), shown, real)
    rows = (torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays)
    return ClickBatch(batch, *rows)


def _first(rows: Ids, flags: NDArray[np.bool_]) -> Ids:
    """Return the flagged entries of each row at its start, padded with item 0.

    >>> _first(np.array([[4, 5, 6], [7, 8, 9]]), np.array([[0, 1, 1], [0, 0, 1]], bool)).tolist()
    [[5, 6], [9, 0]]
    """
    counts = flags.sum(axis=1)
    order = np.argsort(~flags, axis=1, kind="stable")[:, : int(counts.max(initial=0))]
    inside = np.arange(order.shape[1]) < counts[:, None]
    return np.where(inside, np.take_along_axis(rows, order, axis=1), 0)


_COLUMNS = {
    "position": "position",
    "time": "epoch(time)",
    "session_id": "session_id",
    "query": "query",
    "state": "state",
    "text": "text",
    "accepted": "accepted",
    "clicked": "epoch(clicked)",
}
_ROWS = 10_000  # read at once
_EXPORT = "nextquery export --format parquet --out FILE writes one"


class ShownEntry(NamedTuple):
    """One recommendation of a decision, in the order of `_COLUMNS`."""

    position: int
    time: float
    session: str
    query: str
    state: str
    text: str
    accepted: bool
    clicked: float | None


@dataclass
class ClickSession:
    """A session: its queries as arms, when each was known, and what was shown at each.

    `accepted` says of each query whether it was a recommendation that was accepted; `shown` has
    what else was recommended at it.
    """

    arms: list[int] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    shown: list[list[int]] = field(default_factory=list)
    pending: tuple[int, float] | None = None

    def add(self, arm: int, time: float, shown: list[int], *, accepted: bool = False) -> None:
        """Add a query; one that repeats the query just before it is the same."""
        if self.arms and self.arms[-1] == arm:
            self.shown[-1] += shown
            self.accepted[-1] |= accepted
            return
        self.arms.append(arm)
        self.asked.append(max([time, *self.asked[-1:]]))  # a late click is known late
        self.accepted.append(accepted)
        self.shown.append(shown)

    def settle(self) -> None:
        """Add an accepted recommendation that did not run as a query of its own."""
        if self.pending is not None:
            self.add(*self.pending, [], accepted=True)
            self.pending = None


class Read(NamedTuple):
    """The visits of an export, and how many of its queries are no arms of the pool."""

    sessions: list[ClickSession]
    unknown: int


def click_sessions_of(
    path: str | os.PathLike[str], find: Callable[[str], int | None], until: float | None
) -> Read:
    """Return what every session asked, was shown and accepted, as known at `until` (None: now).

    `find` returns the arm of a query; others are left out.
    """
    known: dict[str, int | None] = {}
    click_sessions: dict[str, ClickSession] = {}
    unknown = 0

    def arm_of(text: str) -> int | None:
        if text not in known:
            known[text] = find(text)
        return known[text]

    for _, rows in groupby(entries(path), key=lambda entry: entry.position):
        slate = list(rows)
        first, accepted = slate[0], [entry for entry in slate if entry.accepted]
        if until is not None:
            if first.time >= until:
                continue
            accepted = [entry for entry in accepted if (entry.clicked or entry.time) < until]
        session, arm = click_sessions.setdefault(first.session, ClickSession()), arm_of(first.query)
        chosen = session.pending is not None and session.pending[0] == arm
        if chosen:
            session.pending = None
        session.settle()
        unknown += arm is None
        shown = [] if first.state == "undelivered" else slate
        others = [arm_of(entry.text) for entry in shown if entry not in accepted]
        if arm is not None:
            arms = [other for other in others if other is not None]
            session.add(arm, first.time, arms, accepted=chosen)
        for entry in accepted:
            taken = arm_of(entry.text)
            if taken is not None:
                session.pending = (taken, entry.clicked or entry.time)
    for session in click_sessions.values():
        session.settle()
    return Read(list(click_sessions.values()), unknown)


def entries(path: str | os.PathLike[str]) -> Iterator[ShownEntry]:
    """Yield the entries of all decisions, in the order of the log."""
    import duckdb  # slow to import

    with duckdb.connect() as connection:
        try:
            found = connection.execute("DESCRIBE FROM read_parquet(?)", [str(path)]).fetchall()
        except duckdb.Error as error:
            reason = str(error).split("\n")[0]
            raise InvalidInput(
                f"{path} is not an export of the service's log: {reason}. {_EXPORT}."
            ) from None
        missing = [name for name in _COLUMNS if name not in {row[0] for row in found}]
        if missing:
            raise InvalidInput(
                f"{path} is not an export of the service's log: it has no column {missing[0]!r}. "
                f"{_EXPORT}."
            )
        rows = connection.execute(
            f"SELECT {', '.join(_COLUMNS.values())} FROM read_parquet(?) ORDER BY position, "
            "ordinal",
            [str(path)],
        )
        while part := rows.fetchmany(_ROWS):
            yield from (ShownEntry(*_checked(row, path)) for row in part)


def _checked(row: tuple[Any, ...], path: Any) -> tuple[Any, ...]:
    if any(value is None for value in row[:-1]):
        raise InvalidInput(
            f"{path} is damaged: the entry at position {row[0]} lacks a value. {_EXPORT}."
        )
    return row


def clicked(
    pool: ArmPool,
    export: str | os.PathLike[str],
    *,
    until: float | None,
    hold_out: int,
    note: Note,
) -> TrainingData:
    """Return what an export says of the arms of a pool.

    Parameters
    ----------
    until : only what is dated before this Unix time; None: all.
    hold_out : number of newest sessions of two or more queries to leave out.
    """
    click_sessions, unknown = click_sessions_of(export, pool.find, until)
    if unknown:
        note(
            f"{unknown:,} decisions of {export} are for queries that are no arms of this pool. "
            "They are left out, since they have no vector in it."
        )
    click_sessions = sorted(
        (one for one in click_sessions if len(one.arms) > 1), key=lambda one: one.asked[0]
    )
    left_out = min(hold_out, len(click_sessions) // 2)
    if left_out:
        begun = click_sessions[-left_out].asked[0]
        click_sessions = _before(click_sessions[:-left_out], begun)
    if len(click_sessions) < FEWEST:
        raise InvalidInput(
            f"training needs at least {FEWEST} sessions of 2 or more different queries; {export} "
            f"has {len(click_sessions)} on this pool. Export a longer log, or pass the pool that "
            "the service runs on."
        )
    if not any(any(one.accepted) for one in click_sessions):
        raise InvalidInput(
            f"nobody accepted a recommendation in {export}, so there are no clicks to learn from. "
            "Export a later log, or train a method that learns from sessions alone, like gru4rec."
        )
    held = min(HELD_OUT, len(click_sessions) // 10)
    validation = click_sessions[-held:]
    training = _before(click_sessions[:-held], validation[0].asked[0])
    if not training:
        raise InvalidInput(
            f"no session of {export} has a next query before the validation sessions begin. Use a "
            "longer log, or a later --until."
        )
    arms = np.unique(np.concatenate([_flat(one) for one in [*training, *validation]]))
    numbers = {arm: number for number, arm in enumerate(arms.tolist())}
    sessions, slates = _arrays(training, numbers)
    validation_sessions, validation_slates = _arrays(validation, numbers)
    last = max(one.asked[-1] for one in click_sessions)
    return TrainingData(
        [pool.texts[arm] for arm in arms.tolist()],
        arms,
        np.asarray(pool.vectors[arms], np.float32),
        sessions,
        validation_sessions,
        float(np.nextafter(last, np.inf)),
        left_out,
        slates,
        validation_slates,
    )


def _before(click_sessions: list[ClickSession], time: float) -> list[ClickSession]:
    """Return what was known at a time, of sessions that had a next query by then."""
    known = []
    for one in click_sessions:
        size = int(np.searchsorted(one.asked, time))
        if size > 1:
            known.append(
                ClickSession(
                    one.arms[:size], one.asked[:size], one.accepted[:size], one.shown[:size]
                )
            )
    return known


def _flat(session: ClickSession) -> Ids:
    return np.array([*session.arms, *(arm for row in session.shown for arm in row)], np.int64)


def _arrays(
    click_sessions: list[ClickSession], numbers: dict[int, int]
) -> tuple[Sessions, ShownSlates]:
    sessions = Sessions.of([[numbers[arm] for arm in one.arms] for one in click_sessions])
    asked = np.array([time for one in click_sessions for time in one.asked])
    sessions = sessions._replace(asked=asked, times=asked[sessions.offsets[:-1]])
    shown = [row for one in click_sessions for row in one.shown]
    ends = np.cumsum([len(row) for row in shown])
    slates = ShownSlates(
        np.array([flag for one in click_sessions for flag in one.accepted], bool),
        np.array([numbers[arm] for row in shown for arm in row], np.int64),
        np.concatenate([[0], ends]).astype(np.int64),
    )
    return sessions, slates


class CfanNetwork(nn.Module):  # type: ignore[misc]
    """Reads rows of queries, and rows of what was accepted of them."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.queries, self.clicks = Recurrent(width, width), Recurrent(width, width)
        self.nothing = nn.Parameter(torch.zeros(width))  # before anything was accepted
        self.joined = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Any, accepted: Any, upto: Any) -> Any:
        """Return what it made of each session so far, (batch, length, width).

        `accepted` are the rows of what was accepted, (batch, n, width), and `upto` says of how many
        of them each query knows.
        """
        first = self.nothing.expand(len(rows), 1, -1)
        asked, _ = self.queries(self.dropout(rows))
        taken, _ = self.clicks(self.dropout(torch.cat([first, accepted], dim=1)))
        known = taken.gather(1, upto[..., None].expand(-1, -1, self.width))
        return self.joined(self.dropout(torch.cat([asked, known], dim=2)))


class Served(nn.Module):  # type: ignore[misc]
    """The network for one session, with everything that it accepted."""

    def __init__(self, network: CfanNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Any, accepted: Any) -> Any:
        """Return the vector that scores queries, (1, width)."""
        net = self.network
        asked, _ = net.queries(rows)
        taken, _ = net.clicks(torch.cat([net.nothing.expand(1, 1, -1), accepted], dim=1))
        return net.joined(torch.cat([asked[:, -1], taken[:, -1]], dim=1))


_NONE = np.empty((1, 0), np.int64)  # no drawn items
_AT_ONCE = 256  # validation sessions
_COMPARED = 100  # sessions on which the exported network is compared


class CfanTask(NextItemTask):
    """Train CFAN on sessions of the service's own log."""

    name = "cfan"
    options: CfanOptions

    @classmethod
    def data_of(
        cls,
        pool: ArmPool,
        *,
        until: float | None,
        hold_out: int,
        seed: int,
        clicks: str | os.PathLike[str] | None,
        note: Note,
    ) -> TrainingData:
        """Return what an export of the service's log says of the pool's arms."""
        assert clicks is not None  # `train` comes before
        return clicked(pool, clicks, until=until, hold_out=hold_out, note=note)

    def __init__(self, data: TrainingData, options: CfanOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        torch.manual_seed(seed)
        inputs = Items(data, options.hidden, "text", sparse=False)
        network = CfanNetwork(options.hidden, options.dropout)
        module = NextItemModule(network, inputs, None, len(data.texts), sparse=False)
        self.module = module.to(device)
        self._read = Shuffled(data.training.size, options.batch, seed)
        self.steps = options.epochs * self._read.per_epoch

    def groups(self) -> list[dict[str, Any]]:
        """Return all weights, without weight decay."""
        params = list(self.module.parameters())
        return [{"params": params, "rate": self.options.rate, "weight_decay": 0.0}]

    def seen(self, step: int) -> int:
        """Return the average number of queries read in a step."""
        return int(len(self.data.training.arms) / self._read.per_epoch)

    def loss(self, step: int) -> Any:
        """Return the pairwise loss, and that of the adversarial examples with its weight."""
        rng = np.random.default_rng([self.seed, 7, step])
        drawn = rng.integers(len(self.data.texts), size=(1, self.options.negatives))
        slates = self.data.slates
        made = self._batch(self.data.training, slates, self._read.of_step(step), drawn)
        rows, accepted = self.module.inputs(made.batch.items), self.module.inputs(made.accepted)
        loss = self.pairwise(rows, accepted, made)
        if not self.options.adversarial:
            return loss
        gradients = torch.autograd.grad(loss, (rows, accepted), retain_graph=True)
        moved, taken = self.perturbed((rows, accepted), gradients)
        return loss + self.options.adversarial * self.pairwise(moved, taken, made)

    def perturbed(self, rows: Any, gradients: Any) -> list[Any]:
        """Return the rows of each session, moved together by ε in the direction of the gradient."""
        norm = sum((each**2).sum(dim=(1, 2)) for each in gradients).sqrt().clamp_min(1e-12)
        size = (self.options.perturbation / norm)[:, None, None]
        return [row + (size * each).detach() for row, each in zip(rows, gradients, strict=True)]

    def pairwise(self, rows: Any, accepted: Any, made: ClickBatch) -> Any:
        """Return the mean −log σ(s(next) − s(other)) of a batch, each step counting the same."""
        module, batch = self.module, made.batch
        states = module.network(rows, accepted, made.upto)[batch.steps]

        def scores(items: Any) -> Any:
            products = torch.einsum("nw,nkw->nk", states, module.outputs(items))
            return products + module.bias(items)[..., 0]

        behind = functional.softplus(scores(made.shown) - scores(batch.targets[:, None]))
        return ((behind * made.real).sum(dim=1) / made.real.sum(dim=1).clamp_min(1)).mean()

    def scored(self, sessions: Sessions) -> Iterator[Scored]:
        """Yield scores of all items for every query of the validation sessions."""
        for at in range(0, sessions.size, _AT_ONCE):
            which = np.arange(at, min(at + _AT_ONCE, sessions.size))
            made = self._batch(sessions, self.data.validation_slates, which, _NONE)
            rows = (self.module.inputs(made.batch.items), self.module.inputs(made.accepted))
            states = self.module.network(*rows, made.upto)[made.batch.steps]
            yield Scored(self.module.scores(states), made.batch.targets)

    def exported(self, network: Any) -> bytes:
        """Return the network as ONNX, with the accepted recommendations as a second input."""
        width = self.module.inputs.width
        example = (torch.zeros(1, 3, width), torch.zeros(1, 2, width))
        most = self.options.length
        lengths = (torch.export.Dim("length", min=1), torch.export.Dim("taken", min=0, max=most))
        sizes = {"rows": {1: lengths[0]}, "accepted": {1: lengths[1]}}
        return exported(Served(network), example, [SESSION, ACCEPTED], [OUT], sizes)

    def difference(self, networks: dict[str, bytes]) -> float:
        """Return by how much an entry of a session's vector differs, over some sessions."""
        run, served, worst = runner(networks[NETWORK]), Served(self.module.network.eval()), 0.0
        sessions, slates = self.data.validation, self.data.validation_slates
        assert slates is not None
        for which in range(min(_COMPARED, sessions.size)):
            items = sessions.of_number(which)[-self.options.length :]
            end = int(sessions.offsets[which + 1])
            taken = items[slates.accepted[end - len(items) : end]]
            with torch.no_grad():
                rows = [
                    self.module.inputs(torch.from_numpy(each).to(self.device))[None]
                    for each in (items, taken)
                ]
                ours = served(*rows).cpu().numpy()
            arrays = [row.cpu().numpy() for row in rows]
            (theirs,) = run([OUT], dict(zip((SESSION, ACCEPTED), arrays, strict=True)))
            worst = max(worst, apart(ours, theirs))
        return worst

    def _batch(
        self, sessions: Sessions, slates: ShownSlates | None, which: Ids, drawn: Ids
    ) -> ClickBatch:
        assert slates is not None  # `data_of` has them
        length = self.options.length
        return click_batch(sessions, slates, which, drawn, length=length, device=self.device)
