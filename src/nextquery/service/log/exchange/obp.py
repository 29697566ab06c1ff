"""Export for Open Bandit Pipeline: `bandit_feedback` as an `.npz` file without pickle."""

import zipfile
from array import array
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nextquery.catalogue.catalogue import Catalogue
from nextquery.service.log.exchange.arms import added
from nextquery.service.log.exchange.rounds import rounds
from nextquery.service.log.store import Store

_CHUNK = 4096  # rows of the context that are written together


def obp_pages(store: Store, sink: BinaryIO, catalogue: Catalogue) -> Iterator[None]:
    """Write a round per answered entry; the names are those of the dictionary.

    The context is the vector of the query, the action context that of the arm. Actions are
    numbered from 0; `arm_id` says which arms they are, and `decision` at which log position the
    round was decided. `position` counts from 0 at the top of the slate. The propensity is that of
    the entry given the entries above it. The vectors of queries go through a temporary file, so
    memory grows with the rounds by a few numbers each.
    """
    arms, rewards, ordinals, positions = array("q"), array("b"), array("i"), array("q")
    propensities, estimated, contexts = array("d"), array("b"), array("q")
    queries, last = 0, -1
    with TemporaryFile() as file:
        for page in rounds(store):
            for one in page:
                if one.decision.position != last:
                    last, queries = one.decision.position, queries + 1
                    vector = catalogue.place(one.decision.body.query).vector
                    file.write(np.ascontiguousarray(vector, np.float32).tobytes())
                arms.append(one.entry.arm)
                rewards.append(one.reward)
                ordinals.append(one.ordinal)
                positions.append(last)
                propensities.append(one.entry.propensity)
                estimated.append(one.entry.propensity_estimated)
                contexts.append(queries - 1)
            yield
        file.flush()
        arm_ids, actions = np.unique(np.asarray(arms, np.int64), return_inverse=True)
        parts: dict[str, Any] = {
            "n_rounds": np.int64(len(arms)),
            "n_actions": np.int64(len(arm_ids)),
            "action": actions.astype(np.int64),
            "position": np.asarray(ordinals, np.int64),
            "reward": np.asarray(rewards, np.float64),
            "pscore": np.asarray(propensities, np.float64),
            "pscore_estimated": np.asarray(estimated, np.bool_),
            "action_context": _vectors(store, catalogue, arm_ids),
            "arm_id": arm_ids,
            "decision": np.asarray(positions, np.int64),
        }
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as out:
            for name, values in parts.items():
                with out.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)
            with out.open("context.npy", "w", force_zip64=True) as member:
                shape = (len(arms), catalogue.pool.dim)
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                rows = np.asarray(contexts, np.int64)
                for start in range(0, len(rows), _CHUNK):
                    member.write(_rows_of(file, rows[start : start + _CHUNK], shape[1]))
                    yield


def _rows_of(file: Any, rows: NDArray[np.int64], dim: int) -> bytes:
    """Return the rows of a file of vectors, which come in order and lie near each other."""
    first, last = int(rows[0]), int(rows[-1])
    file.seek(first * dim * 4)
    read = np.frombuffer(file.read((last - first + 1) * dim * 4), "<f4").reshape(-1, dim)
    return bytes(read[rows - first].tobytes())


def _vectors(store: Store, catalogue: Catalogue, arms: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors of arms, also of those that were added after the pool was made."""
    rows = catalogue.pool.rows_in_all
    vectors = np.zeros((len(arms), catalogue.pool.dim), np.float32)
    vectors[arms < rows] = catalogue.pool.rows(arms[arms < rows])
    if len(arms) and arms[-1] >= rows:
        places = {int(arm): at for at, arm in enumerate(arms) if arm >= rows}
        for id, arm in added(store, catalogue.pool):
            if id in places and arm.vector is not None:
                vectors[places[id]] = arm.vector
    return vectors
