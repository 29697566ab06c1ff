"""The paper's protocol `anchored`: fixed anchors, fixed candidates, a new policy for each.

The anchor is the first query of a sampled session. Its candidate set is selected once; then T
rounds are played, and the reward is 1 if the arm played is among the session's next queries.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.registry import policy_named
from nextquery.replay.anchored.array_engine import Game, allowed_sizes, draws, play, rewards_at
from nextquery.replay.anchored.candidates import CandidateSets, select_sets
from nextquery.replay.cells import Cell, Setting, recorded_rounds
from nextquery.replay.sessions import Anchors, draw_anchors
from nextquery.replay.work import Piece, Progress, Run, Work, label_of, run_missing


class Finished(NamedTuple):
    """A cell's result: each anchor's number of candidates and reward up to each recorded round."""

    cell: Cell
    sessions: NDArray[np.int64]
    sizes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    recorded: NDArray[np.int64]
    rewards: NDArray[np.int32]

    @property
    def regrets(self) -> NDArray[np.float64]:
        """R(t) of each anchor at the recorded rounds."""
        return (self.recorded - self.rewards).astype(np.float64)


def run_cells(
    work: Work,
    cells: Sequence[Cell],
    run: Run,
    progress: Progress | None = None,
) -> list[Finished]:
    """Return every cell's result: select candidates once, then play all policies on them.

    Cells that draw nothing at random are played once for all seeds.
    """
    pieces = [cell_piece(cell) for cell in cells]
    missing = [cell for cell in cells if not work.is_done(cell_piece(cell))]
    settings = dict.fromkeys(_setting_piece(cell.setting) for cell in missing)
    run_missing(work, list(settings), _select, run, progress)
    # Slowest first, so that no process is still busy with one when the others are done.
    slowest_first = sorted(dict.fromkeys(pieces), key=lambda piece: "lin-" not in piece.label)
    run_missing(work, slowest_first, _play, run, progress)
    return [Finished(cell, **work.load(piece)) for cell, piece in zip(cells, pieces, strict=True)]


def cell_piece(cell: Cell) -> Piece:
    """Return the piece of a cell; cells that differ only by an unused seed share one."""
    setting = cell.setting
    if not draws(policy_named(cell.policy)):
        cell = cell._replace(setting=setting.without_luck())
    return Piece("cells", label_of([setting.selection, setting.k, cell.policy]), cell)


def _setting_piece(setting: Setting) -> Piece:
    label = label_of(["select", setting.selection, setting.k])
    return Piece("candidates", label, setting.without_luck())


def _select(work: Work, piece: Piece) -> None:
    setting: Setting = piece.options
    anchors = _anchors(work, setting)
    sets = select_sets(work.pool, work.sessions, anchors, setting.selector(), setting.seed)
    work.keep(piece, sets._asdict())


def _play(work: Work, piece: Piece) -> None:
    cell: Cell = piece.options
    setting = cell.setting
    sets = CandidateSets(**work.load(_setting_piece(setting)))
    anchors = _anchors(work, setting)
    game = Game(work.pool, anchors.arms, sets, cell.rounds, cell.growth())
    recorded = np.array(recorded_rounds(cell.rounds))
    played = play(game, policy_named(cell.policy), cell.policy, setting.seed)
    rewards = rewards_at(game, played, recorded)
    largest = int(np.diff(sets.offsets).max(initial=0))
    reached = int(allowed_sizes(largest, game)[-1])  # a growing set may not reach k
    sizes = np.minimum(np.diff(sets.offsets), reached)
    result = Finished(cell, anchors.sessions, sizes, sets.covered(reached), recorded, rewards)
    work.keep(piece, {name: getattr(result, name) for name in Finished._fields[1:]})


def _anchors(work: Work, setting: Setting) -> Anchors:
    return draw_anchors(work.sessions, setting.anchors, setting.anchor_seed, setting.held_out)
