"""Compiled kernels: each function plays all rounds of one anchor.

They do what the policies do, in the same order and with the same random numbers: `uniforms` and
`normals` contain the draws of the anchor's generator. `sizes[t]` is the number of candidates (best
first) that may be played in round t, so a set can grow (Algorithm 2).

`nextquery.vectors` compiles them on first use: importing this module costs nothing.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def disjoint(
    targets: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    uniforms: Floats,
    alpha: float,
    ridge: float,
    tie: float,
    by_preference: bool,
    played: NDArray[np.int64],
) -> None:
    """LinUCB with a model per arm: mean r/(λ+n), width 1/√(λ+n). Writes indices to `played`."""
    scores = np.full(len(targets), alpha / np.sqrt(ridge))
    plays, rewards = np.zeros(len(targets)), np.zeros(len(targets))
    spent = 0
    for t in range(len(played)):
        best = scores[0]
        for j in range(sizes[t]):
            best = max(best, scores[j])
        first, ties = -1, 0
        for j in range(sizes[t]):
            if scores[j] >= best - tie:
                ties += 1
                if first < 0:
                    first = j
        place = first
        if ties > 1 and not by_preference:
            skip = int(uniforms[spent] * ties)
            spent += 1
            for j in range(first, sizes[t]):
                if scores[j] >= best - tie:
                    if skip == 0:
                        place = j
                        break
                    skip -= 1
        plays[place] += 1.0
        rewards[place] += 1.0 if targets[place] else 0.0
        weight = ridge + plays[place]
        scores[place] = rewards[place] / weight + alpha * (1.0 / np.sqrt(weight))
        played[t] = place


def feedback(
    columns: Floats,
    similarities: Floats,
    targets: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    alpha: float,
    ridge: float,
    strength: float,
    tie: float,
    played: NDArray[np.int64],
) -> None:
    """FeedbackUCB: the disjoint model; ties are broken by similarity, corrected by feedback."""
    d, k = columns.shape
    scores = np.full(k, alpha / np.sqrt(ridge))
    plays, rewards = np.zeros(k), np.zeros(k)
    expected, along = similarities.copy(), np.empty(k)
    inverse, direction = np.eye(d) / strength, np.empty(d)
    for t in range(len(played)):
        best = scores[0]
        for j in range(sizes[t]):
            best = max(best, scores[j])
        likeliest = -np.inf
        for j in range(sizes[t]):
            if scores[j] >= best - tie:
                likeliest = max(likeliest, expected[j])
        place = -1
        for j in range(sizes[t]):
            if scores[j] >= best - tie and expected[j] >= likeliest - tie:
                place = j
                break
        played[t] = place
        reward = 1.0 if targets[place] else 0.0
        plays[place] += 1.0
        rewards[place] += reward
        weight = ridge + plays[place]
        scores[place] = rewards[place] / weight + alpha * (1.0 / np.sqrt(weight))
        direction[:] = 0.0
        for i in range(d):
            for j in range(d):
                direction[j] += inverse[i, j] * columns[i, place]
        scale = 1.0
        for i in range(d):
            scale += direction[i] * columns[i, place]
        along[:] = 0.0
        for i in range(d):
            for j in range(k):
                along[j] += columns[i, j] * direction[i]
        surprise = (reward - expected[place]) / scale
        for j in range(k):
            expected[j] += along[j] * surprise
        for i in range(d):
            for j in range(d):
                inverse[i, j] -= direction[i] * direction[j] / scale


def linear(
    columns: Floats,
    targets: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    uniforms: Floats,
    normals: Floats,
    alpha: float,
    ridge: float,
    tie: float,
    by_preference: bool,
    played: NDArray[np.int64],
) -> None:
    """LinUCB and LinTS with one model for all arms; `columns` has one arm's features per column.

    With `normals` it is LinTS: the score is θᵀx + α·xᵀLz, A⁻¹ = LLᵀ. Without them it is LinUCB:
    θᵀx + α·√(xᵀA⁻¹x). Each round updates means and variances by Sherman–Morrison and L by a
    rank-one downdate, so a round costs d·k + d² instead of d²·k or d³.
    """
    d, k = columns.shape
    upper = np.zeros((d, d))  # Lᵀ: row j is column j of L, so that the inner loops run along memory
    means, variances = np.zeros(k), np.zeros(k)
    for i in range(d):
        upper[i, i] = 1.0 / np.sqrt(ridge)
        for j in range(k):
            variances[j] += columns[i, j] * columns[i, j] / ridge
    scores, along = np.empty(k), np.empty(k)
    lifted, direction = np.empty(d), np.empty(d)
    thompson = len(normals) > 0
    spent = 0
    for t in range(len(played)):
        if thompson:
            direction[:] = 0.0
            for i in range(d):
                for j in range(i, d):
                    direction[j] += upper[i, j] * normals[t, i]
            scores[:] = 0.0
            for i in range(d):
                for j in range(k):
                    scores[j] += columns[i, j] * direction[i]
            for j in range(k):
                scores[j] = means[j] + alpha * scores[j]
        else:
            for j in range(k):
                scores[j] = means[j] + alpha * np.sqrt(max(variances[j], 0.0))
        best = scores[0]
        for j in range(sizes[t]):
            best = max(best, scores[j])
        within = 0.0 if thompson else tie
        first, ties = -1, 0
        for j in range(sizes[t]):
            if scores[j] >= best - within:
                ties += 1
                if first < 0:
                    first = j
        place = first
        if ties > 1 and not by_preference and not thompson:
            skip = int(uniforms[spent] * ties)
            spent += 1
            for j in range(first, sizes[t]):
                if scores[j] >= best - within:
                    if skip == 0:
                        place = j
                        break
                    skip -= 1
        played[t] = place
        scale = 1.0
        for i in range(d):
            total = 0.0
            for j in range(i, d):
                total += upper[i, j] * columns[j, place]
            lifted[i] = total
            scale += total * total
        direction[:] = 0.0
        for i in range(d):
            for j in range(i, d):
                direction[j] += upper[i, j] * lifted[i]
        along[:] = 0.0
        for i in range(d):
            for j in range(k):
                along[j] += columns[i, j] * direction[i]
        surprise = ((1.0 if targets[place] else 0.0) - means[place]) / scale
        for j in range(k):
            means[j] += along[j] * surprise
            variances[j] -= along[j] * along[j] / scale
        root = np.sqrt(scale)
        for i in range(d):
            direction[i] /= root
        for i in range(d):
            old = upper[i, i]
            new = np.sqrt(old * old - direction[i] * direction[i])
            cosine, sine = new / old, direction[i] / old
            upper[i, i] = new
            for j in range(i + 1, d):
                upper[i, j] = (upper[i, j] - sine * direction[j]) / cosine
                direction[j] = cosine * direction[j] - sine * upper[i, j]
