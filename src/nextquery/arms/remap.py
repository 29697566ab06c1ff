"""A pool with explicit arm ids: the ids that a service log assigned, instead of row numbers.

The arms of the log get ids first, then each query that became an arm while the service ran. When
the pool grows, its next rows cannot have the ids that follow its old ones, because they are
taken. Rows keep their order, in *runs* of ids without a gap. Arms that were added in between have
the ids in the gaps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.coded import Codes
from nextquery.arms.kernels import Ids, Vectors
from nextquery.arms.origin import Origin
from nextquery.arms.pool import ArmPool
from nextquery.arms.scan import Rows
from nextquery.arms.texts import TextColumn, Texts, placeholder_text, text_table
from nextquery.errors import InvalidInput
from nextquery.segments import text_of
from nextquery.vectors import unit_rows


class LiveArm(NamedTuple):
    """A query that became an arm of a service: its key, its spelling, its vector (None: none)."""

    text: str
    shown: str
    vector: Vectors | None


@dataclass(frozen=True)
class IdMap:
    """The ids of the rows of a pool: pairs of a row and its id, at which a run of both begins.

    >>> layout = IdMap(((0, 0), (3, 5)), rows=5)
    >>> layout.ids(np.array([2, 3, 4])).tolist(), layout.end, layout.gaps
    ([2, 5, 6], 7, [range(3, 5)])
    """

    runs: tuple[tuple[int, int], ...]
    rows: int

    @classmethod
    def of(cls, runs: Sequence[Sequence[int]], rows: int) -> "IdMap":
        """Create it from the runs of an event; without any, every row is its own id."""
        return cls(tuple((int(row), int(id)) for row, id in runs) or ((0, 0),), rows)

    def grown(self, rows: int, first: int) -> "IdMap":
        """Return the layout with rows added up to `rows`, whose ids begin with `first`.

        >>> IdMap.of([], 3).grown(5, 5).runs, IdMap.of([], 3).grown(5, 3).runs
        (((0, 0), (3, 5)), ((0, 0),))
        """
        if rows == self.rows or first == self.end:
            return IdMap(self.runs, rows)
        return IdMap((*self.runs, (self.rows, first)), rows)

    @property
    def is_plain(self) -> bool:
        """Whether every row is its own id."""
        return self.runs == ((0, 0),)

    @property
    def end(self) -> int:
        """The first id after those of all rows."""
        row, id = self.runs[-1]
        return id + self.rows - row

    @cached_property
    def ranges(self) -> list[tuple[range, int]]:
        """The rows of each run, and their first id."""
        starts = [row for row, _ in self.runs]
        ends = [*starts[1:], self.rows]
        return [
            (range(start, end), id)
            for start, end, (_, id) in zip(starts, ends, self.runs, strict=True)
        ]

    @cached_property
    def gaps(self) -> list[range]:
        """The ids between the runs."""
        ends = [id + len(rows) for rows, id in self.ranges]
        return [range(end, id) for end, (_, id) in zip(ends, self.ranges[1:], strict=False)]

    def ids(self, rows: Ids) -> Ids:
        """Return the ids of rows."""
        starts = np.array([row for row, _ in self.runs], np.int64)
        ids = np.array([id for _, id in self.runs], np.int64)
        run = np.searchsorted(starts, rows, "right") - 1
        found: Ids = rows - starts[run] + ids[run]
        return found


def vector_of(pool: ArmPool, text: str) -> Vectors | None:
    """Return the vector that a pool's encoder gives a key; None if it knows none of its words."""
    if pool.encoder is None:
        return None
    rows = pool.encoder.encode([text_of(text)])
    vector: Vectors = unit_rows(rows, what="arm", dim=pool.dim, allow_zero=True)[0]
    return vector if vector.any() else None


def lay_out(pool: ArmPool, layout: IdMap, live: Mapping[int, LiveArm]) -> ArmPool:
    """Return a pool with its rows under the ids of a layout, and with live arms in the gaps.

    A row with the text of a live arm of a smaller id is that arm: what the log knows of the row
    counts for the arm, and the id of the row is never selected. If the row has the smaller id, the
    arm is never selected. The same holds for ids in gaps that no live arm has.
    """
    if layout.is_plain:
        return pool
    if type(pool) is not ArmPool:
        raise InvalidInput(
            "this pool was updated after queries had become arms of the service, and on a cluster "
            "the rows of a pool must be in the order of their ids. Serve it without --cluster."
        )
    texts = pool.texts.in_one_column()
    ids, removed = layout.ids(np.arange(layout.rows)), set[int]()
    row_of: dict[int, int] = {}  # of live arms that are rows too
    seen = set[str]()
    for id in (id for gap in layout.gaps for id in gap):
        arm = live.get(id)
        rows = [] if arm is None else texts.ids_of(arm.text)
        again = arm is None or arm.text in seen or any(ids[row] < id for row in rows)
        if arm is None or arm.vector is None or again:
            removed.add(id)
        if arm is not None:
            seen.add(arm.text)
        for row in rows:
            if ids[row] > id:
                removed.add(int(ids[row]))
                row_of[id], ids[row] = row, id
    names = {id: arm.text for id, arm in live.items()}
    twin = ArmPool(
        _texts(texts, layout, names),
        pool.vectors[:0],
        np.union1d(layout.ids(pool.removed), np.array(sorted(removed), np.int64)),
        origin=_origin(pool.origin, layout, ids, row_of, live),
        encoder=pool.encoder,
    )
    twin.use(_rows(pool, layout, live), pool.folder)
    return twin


def _rows(pool: ArmPool, layout: IdMap, live: Mapping[int, LiveArm]) -> Rows:
    """Return the vectors by id: views of the stored ones, with those of live arms in between."""
    vectors, codes = pool.vectors, pool.codes
    zero_vector = np.zeros(pool.dim, np.float32)
    zero_vector[0] = 1.0
    parts: list[tuple[Vectors, Codes | None]] = []
    for number, (rows, _) in enumerate(layout.ranges):
        coded = None if codes is None else codes.cut(rows.start, rows.stop)
        parts.append((vectors[rows.start : rows.stop], coded))
        for gap in layout.gaps[number : number + 1]:
            found = [live[id].vector if id in live else None for id in gap]
            between = [zero_vector if vector is None else vector for vector in found]
            parts.append((np.stack(between).astype(np.float32), None))
    return Rows(*parts[0], between=parts[1:])


def _texts(texts: Texts, layout: IdMap, names: Mapping[int, str]) -> Texts:
    """Return the texts by id."""
    column = _spread(texts.stored, layout, names)
    hashes, rows = texts.table
    between = [id for gap in layout.gaps for id in gap]
    more, places = text_table([names.get(id, placeholder_text(id)) for id in between])
    every = np.concatenate([hashes, more])
    of = np.concatenate([layout.ids(np.asarray(rows)), np.array(between, np.int64)[places]])
    order = np.argsort(every, kind="stable")
    return Texts(column, every[order], of[order])


def _spread(column: TextColumn, layout: IdMap, between: Mapping[int, str]) -> TextColumn:
    """Return texts of rows by id, with others in the gaps."""
    data, lengths = list[NDArray[np.uint8]](), list[Ids]()
    for number, (rows, _) in enumerate(layout.ranges):
        offsets = np.asarray(column.offsets[rows.start : rows.stop + 1])
        data.append(np.asarray(column.data[offsets[0] : offsets[-1]]))
        lengths.append(np.diff(offsets))
        for gap in layout.gaps[number : number + 1]:
            some = TextColumn.of([between.get(id, placeholder_text(id)) for id in gap])
            data.append(some.data)
            lengths.append(np.diff(some.offsets))
    return TextColumn(
        np.concatenate(data), np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    )


def _origin(
    origin: Origin | None,
    layout: IdMap,
    ids: Ids,
    row_of: Mapping[int, int],
    live: Mapping[int, LiveArm],
) -> Origin | None:
    """Return the log with its arrays and its sessions by id."""
    if origin is None:
        return None

    def by_id(values: NDArray[Any], other: int) -> NDArray[Any]:
        found = np.full(layout.end if len(values) else 0, other, values.dtype)
        found[ids[: len(values)]] = values
        return found

    shown = origin.shown
    between = {
        id: shown[row_of[id]] if id in row_of else arm.shown or text_of(arm.text)
        for id, arm in live.items()
    }
    return replace(
        origin,
        shown=_spread(TextColumn.of(shown), layout, between),
        session_counts=by_id(origin.session_counts, 0),
        user_counts=by_id(origin.user_counts, 0),
        hits=by_id(origin.hits, -1),
        segments=by_id(origin.segments, 0),
        sessions=origin.sessions._replace(arms=ids[origin.sessions.arms]),
    )
