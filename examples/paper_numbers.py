"""Compare the numbers that the paper prints or implies with this code. Fails if they differ."""

import sys

import numpy as np

import nextquery as nq

PAPER = [  # name, printed value, tolerance of its rounding
    ("p(a1, a2 | a0, 0.5)", 0.297, 1e-3),
    ("p(a1, a3 | a0, 0.5)", 0.324, 1e-3),
    ("p(a2, a3 | a0, 0.5)", 0.445, 1e-3),
    ("p(a1, a2 | a0, 0.6)", 0.349, 1e-3),
    ("p(a1, a3 | a0, 0.6)", 0.380, 1e-3),
    ("p(a2, a3 | a0, 0.6)", 0.523, 1e-3),
    ("alpha for a peak of 250", 6.422, 5e-4),
    ("largest k_t at whole trials", 246.4, 5e-2),
    ("v of LinTS at d = 128", 0.4625, 5e-5),
]


def computed() -> list[float]:
    """Return the same quantities, in the same order."""
    pairs = np.triu_indices(3, k=1)
    joints = [
        value
        for epsilon in (0.5, 0.6)
        for value in nq.preference.joint([0.4, 0.55, 0.6], epsilon)[pairs].tolist()
    ]
    bump = nq.Bump(peak=250)
    return [*joints, bump.alpha, max(bump(t) for t in range(1, 1001)), nq.LinTS().width(128)]


def main() -> int:
    """Print the table. The exit code is the number of differences."""
    wrong = 0
    print(f"{'quantity':<30}{'paper':>11}{'nextquery':>11}")
    for (name, published, tolerance), value in zip(PAPER, computed(), strict=True):
        agrees = abs(published - value) <= tolerance
        wrong += not agrees
        print(f"{name:<30}{published:>11.4f}{value:>11.4f}{'' if agrees else '   differs'}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
