"""Coded rows times many coded anchors, with the processor's instruction for 8-bit products.

AVX-512 VNNI multiplies 64 pairs of 8-bit numbers at once and adds them up in groups of four. So a
batch costs a fraction of the product of floats, and a thread can scan millions of rows in one call:
products are compared where they are computed and never written. As with all codes, they only
propose arms (see `nextquery.arms.scan`).

A *tile* is a few rows times 16 or 32 anchors. Anchors lie side by side in vector registers, four
coordinates of 16 anchors in each, and a row's four coordinates are repeated for all of them. An
anchor has 15 bits, as 128 · high + low: with 8 bits its rounding would double the slack, and with
it the proposals, several times. The instruction takes unsigned numbers on one side, so rows are
shifted by 128, and the sums start at −128 · Σ aⱼ to undo that.
"""

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from nextquery.arms import kernels
from nextquery.arms.coded import Codes, coded_anchors
from nextquery.arms.kernels import LOWEST, Floats, Ids, Vectors
from nextquery.vectors import compiled

GROUP = 4
"""Coordinates that one instruction adds up; the number of coordinates must be a multiple of it."""
ROWS = 4
"""Rows in one tile."""
MOST = 32
"""Anchors in one tile."""
_LANES = 16  # anchors in a register
_HIGH = 128  # what the upper half of an anchor's coordinate counts
_INSTRUCTION = "llvm.x86.avx512.vpdpbusd.512"
_SUMS = ir.VectorType(ir.IntType(32), _LANES)
_FLOATS = ir.VectorType(ir.FloatType(), _LANES)
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@cache
def available() -> bool:
    """Whether this processor has the instruction, and Numba compiles for this processor."""
    settings: Any = numba.config
    other = settings.CPU_NAME or settings.CPU_FEATURES
    return not other and bool(binding.get_host_cpu_features().get("avx512vnni", False))


class Tiles(NamedTuple):
    """Anchors as the instruction reads them, and what must not be proposed for each."""

    packed: NDArray[np.int8]  # coordinate / 4, register, anchor, coordinate of the four
    begin: NDArray[np.int32]
    steps: Vectors
    residual: float
    hidden: tuple[NDArray[np.integer], Ids]  # pairs of an anchor's place and an excluded id
    removed: Ids

    @classmethod
    def of(cls, anchors: Vectors, hidden: tuple[NDArray[np.integer], Ids], removed: Ids) -> "Tiles":
        """Pack up to `MOST` anchors; `hidden` is in order of id."""
        width = _LANES if len(anchors) <= _LANES else MOST
        coded = coded_anchors(anchors, finest=_HIGH * 127 + _HIGH // 2 - 1)
        high = (coded.codes + _HIGH // 2) // _HIGH
        halves = np.zeros((2, width, anchors.shape[1]), np.int8)
        halves[:, : len(anchors)] = high, coded.codes - _HIGH * high
        steps = np.ones(width, np.float32)
        steps[: len(anchors)] = coded.steps
        groups = halves.reshape(2 * width // _LANES, _LANES, -1, GROUP).transpose(2, 0, 1, 3)
        begin = -128 * halves.reshape(2 * width, -1).sum(axis=1, dtype=np.int32)
        return cls(np.ascontiguousarray(groups), begin, steps, coded.residual, hidden, removed)

    @property
    def room(self) -> int:
        """The most proposals of one tile."""
        return ROWS * len(self.steps)

    def propose(
        self, codes: Codes, part: slice, first: int, search: tuple[Any, ...]
    ) -> tuple[int, int]:
        """Propose arms of some coded rows that may be among the k best of an anchor.

        Raises the floor of the search whenever it has more proposals than its limit. Stops only if
        there is no room for more. Returns the next row and how many proposals there are.

        Parameters
        ----------
        codes, part : the rows.
        first : the arm of row 0.
        search : k, low, high, floor, proposals, their number and their limit (see `Search`).
        """
        row, used = compiled(_propose, any_order=True)(
            codes.rows,
            codes.scales,
            (part.start, part.stop),
            first,
            self.packed,
            self.begin,
            self.steps,
            codes.slack(part, self.residual),
            self.hidden,
            self.removed,
            *search,
        )
        return row, used


def _tile(width: int) -> Any:
    """Return a function that multiplies `ROWS` rows with all anchors of a tile.

    It writes the sums, upper and lower halves, to `sums`, and to `passed` one bit for each anchor
    of each row: whether the product reaches `least`. Numba has no vector registers, so this writes
    LLVM code.
    """
    registers = width // _LANES

    @intrinsic
    def multiply(
        context: Any,
        codes: Any,
        scales: Any,
        d: Any,
        packed: Any,
        begin: Any,
        steps: Any,
        least: Any,
        sums: Any,
        passed: Any,
    ) -> Any:
        addresses = [types.uintp] * 6
        return types.void(types.uintp, types.uintp, types.intp, *addresses), write

    def write(context: Any, code: ir.IRBuilder, signature: Any, args: Any) -> Any:
        codes, scales, d, packed, begin, steps, least, sums, passed = args
        instruction = code.module.globals.get(_INSTRUCTION) or ir.Function(
            code.module, ir.FunctionType(_SUMS, [_SUMS] * 3), _INSTRUCTION
        )

        def at(start: Any, place: Any, kind: ir.Type) -> Any:
            return code.gep(code.inttoptr(start, ir.PointerType(kind)), [place], source_etype=kind)

        def load(start: Any, place: Any, kind: ir.Type) -> Any:
            loaded = code.load(at(start, place, kind), typ=kind)
            loaded.align = 1
            return loaded

        def store(value: Any, start: Any, place: int) -> None:
            code.store(value, at(start, _I64(place), value.type)).align = 1

        def repeated(value: Any) -> Any:
            vector = ir.VectorType(value.type, _LANES)
            none, first = ir.Constant(vector, ir.Undefined), ir.Constant(_SUMS, [0] * _LANES)
            return code.shuffle_vector(code.insert_element(none, value, _I32(0)), none, first)

        tile = [(row, register) for row in range(ROWS) for register in range(2 * registers)]
        begins = [load(begin, _I64(register), _SUMS) for register in range(2 * registers)]
        groups = code.udiv(d, _I64(GROUP))
        before, loop = code.block, code.append_basic_block("coordinates")
        done = code.append_basic_block("done")
        code.branch(loop)
        code.position_at_end(loop)
        group = code.phi(_I64)
        group.add_incoming(_I64(0), before)
        so_far = {place: code.phi(_SUMS) for place in tile}
        start = code.mul(group, _I64(2 * registers))
        places = [code.add(start, _I64(register)) for register in range(2 * registers)]
        anchors = [load(packed, place, _SUMS) for place in places]
        total = {}
        for row in range(ROWS):
            four = load(codes, code.add(code.mul(groups, _I64(row)), group), _I32)
            shifted = repeated(code.xor(four, _I32(0x80808080)))  # plus 128, as unsigned numbers
            for register, anchor in enumerate(anchors):
                given = [so_far[row, register], shifted, anchor]
                total[row, register] = code.call(instruction, given)
        following = code.add(group, _I64(1))
        group.add_incoming(following, loop)
        for place in tile:
            so_far[place].add_incoming(begins[place[1]], before)
            so_far[place].add_incoming(total[place], loop)
        code.cbranch(code.icmp_unsigned("<", following, groups), loop, done)
        code.position_at_end(done)
        for number, place in enumerate(tile):
            store(total[place], sums, number)
        counts = ir.Constant(_SUMS, [_HIGH] * _LANES)
        for row in range(ROWS):
            scale = repeated(load(scales, _I64(row), ir.FloatType()))
            for register in range(registers):
                high, low = total[row, register], total[row, registers + register]
                product = code.sitofp(code.add(code.mul(high, counts), low), _FLOATS)
                product = code.fmul(code.fmul(product, scale), load(steps, _I64(register), _FLOATS))
                passes = code.fcmp_ordered(">=", product, load(least, _I64(register), _FLOATS))
                bits = code.bitcast(passes, ir.IntType(_LANES))
                store(bits, passed, row * registers + register)
        return context.get_dummy_value()

    return multiply


_for_16_anchors = _tile(16)
_for_32_anchors = _tile(32)


_tighten: Any = numba.njit(kernels.tighten)  # part of the compiled `_propose`


def _propose(
    codes: NDArray[np.int8],
    scales: Vectors,
    part: tuple[int, int],
    first: int,
    packed: NDArray[np.int8],
    begin: NDArray[np.int32],
    steps: Vectors,
    slack: float,
    hidden: tuple[NDArray[np.integer], Ids],
    removed: Ids,
    k: int,
    low: Floats,
    high: Floats,
    floor: Floats,
    proposals: tuple[NDArray[np.int32], Ids, Vectors, Vectors],
    used: int,
    limit: int,
) -> tuple[int, int]:
    width, d = len(steps), codes.shape[1]
    rows, ids, values, slacks = proposals
    least, most = np.full(width, np.inf, np.float32), np.full(width, np.inf, np.float32)
    full, tight = limit, False
    sums = np.empty((ROWS, 2, width), np.int32)
    passed = np.zeros(ROWS, np.uint32)
    bits = passed.view(np.uint16)[: ROWS * (width // _LANES)]
    last_rows, last_scales = np.zeros((ROWS, d), np.int8), np.zeros(ROWS, np.float32)
    anchors = (d, packed.ctypes.data, begin.ctypes.data, steps.ctypes.data, least.ctypes.data)
    results = (sums.ctypes.data, passed.ctypes.data)
    row = part[0]
    while row < part[1]:
        if used > full or used + ROWS * width > len(ids):
            used = _tighten(rows, ids, values, slacks, used, k, low, high, floor)
            full, tight = max(limit, 2 * used), False
            if used + ROWS * width > len(ids):
                return row, used
        if not tight:
            for j in range(len(floor)):
                least[j] = max(np.float32(floor[j] - slack), LOWEST)
                most[j] = np.float32(high[j] + slack)
            tight = True
        count = min(ROWS, part[1] - row)
        given = (codes.ctypes.data + row * d, scales.ctypes.data + 4 * row)
        if count < ROWS:
            last_rows[:count] = codes[row : row + count]
            last_scales[:count] = scales[row : row + count]
            given = (last_rows.ctypes.data, last_scales.ctypes.data)
        if width == MOST:
            _for_32_anchors(*given, *anchors, *results)
        else:
            _for_16_anchors(*given, *anchors, *results)
        for i in range(count):
            mask = passed[i] if width == MOST else np.uint32(bits[i])
            if mask == 0:
                continue
            arm = first + row + i
            place = np.searchsorted(removed, arm)
            if place < len(removed) and removed[place] == arm:
                continue
            place = np.searchsorted(hidden[1], arm)
            for j in range(width):
                if not (mask >> np.uint32(j)) & np.uint32(1):
                    continue
                whole = np.float32(_HIGH * sums[i, 0, j] + sums[i, 1, j])
                value = whole * scales[row + i] * steps[j]
                excluded, at = value > most[j], place
                while at < len(hidden[1]) and hidden[1][at] == arm:
                    excluded = excluded or hidden[0][at] == j
                    at += 1
                if not excluded:
                    rows[used], ids[used] = j, arm
                    values[used], slacks[used] = value, slack
                    used += 1
        row += count
    return row, used
