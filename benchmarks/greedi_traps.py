"""Instances made to fool GreeDi: the partition hides what central greedy finds at once.

Central greedy chooses k hidden arms, each worth 1 and in its own direction. They are distributed
over the m parts, and every part gets k decoys that its greedy prefers: a decoy gains a `share` of
the part's least covered hidden arm, and the rest, just enough to beat that arm, from something that
the decoys of *all* parts have in common. Each part's answer looks good on its own, but together
they are worth little more than one of them. For facility location, k picks of the union get about
k·share from the hidden arms and k/(2·m·share) from the common part, out of k: with the best share,
√(1/2m), that is √(2/m).

The construction is new here. For coverage it is known that adversarial parts allow no constant
factor (Mirrokni and Zadimoghaddam 2015, introduction); the first trap is a coverage.
"""

from typing import NamedTuple

import numpy as np

from nextquery.selection.utility import FacilityLocation, LogDet, Utility

EDGE = 1e-6  # by how much a decoy beats what it hides


class Trap(NamedTuple):
    """A utility, the arms to choose from, and the partition that fools GreeDi."""

    utility: Utility
    ground_set: list[int]
    parts: list[list[int]]


def facility_location_trap(k: int, m: int, share: float) -> Trap:
    """Arms are orthogonal with weight 0; they cover clients, which are mixtures of arms.

    A client similar to the arms of a set N has the vector Σ_N e/√|N|, so each arm has the cosine
    1/√|N| with it: with weight w·√|N| every weighted coverage is a facility location.
    """
    parts = _dealt(k, m)
    clients: list[tuple[float, list[int]]] = []
    common, sharing = [0.0] * k, [list[int]() for _ in range(k)]
    arms = k
    for part in parts:
        uncovered = dict.fromkeys(part, 1.0)
        for turn in range(k):
            hidden = max(uncovered, key=uncovered.__getitem__)
            taken = min(share, uncovered[hidden])
            common[turn] = max(common[turn], uncovered[hidden] - taken + EDGE)
            uncovered[hidden] -= taken
            clients.append((taken, [hidden, arms]))
            sharing[turn].append(arms)
            part.append(arms)
            arms += 1
        clients += [(weight, [hidden]) for hidden, weight in uncovered.items()]
    clients += zip(common, sharing, strict=True)
    vectors = np.zeros((arms + len(clients), arms), np.float32)
    vectors[:arms] = np.eye(arms)
    weights = np.zeros(len(vectors))
    for row, (weight, covering) in enumerate(clients, start=arms):
        vectors[row, covering] = 1.0
        weights[row] = weight * np.sqrt(len(covering))
    return Trap(FacilityLocation(weights, vectors), list(range(arms)), parts)


def log_det_trap(k: int, m: int, share: float) -> Trap:
    """A decoy is √(1 − share) of a direction common to all parts and √share of a hidden arm.

    After n decoys of lengths q, 1/(1 + Σ share·q²/(1 + (1 − share) q²)) of a hidden arm remains; a
    decoy is just long enough to beat that.
    """
    parts = _dealt(k, m)
    rows, lengths = list(np.eye(k, 2 * k)), [1.0] * k
    for part in parts:
        precision = dict.fromkeys(part, 1.0)
        for turn in range(k):
            hidden = min(precision, key=precision.__getitem__)
            rest = 1 / precision[hidden]
            squared = rest / (1 - share + share * rest) * (1 + EDGE)
            precision[hidden] += share * squared / (1 + (1 - share) * squared)
            row = np.zeros(2 * k)
            row[hidden], row[k + turn] = np.sqrt(share), np.sqrt(1 - share)
            part.append(len(rows))
            rows.append(row)
            lengths.append(float(np.sqrt(squared)))
    return Trap(LogDet(lengths, np.array(rows)), list(range(len(rows))), parts)


def _dealt(k: int, m: int) -> list[list[int]]:
    """Distribute the hidden arms 0 … k − 1 over the parts; with m > k only k parts are used."""
    return [list(range(part, k, m)) for part in range(min(k, m))]
