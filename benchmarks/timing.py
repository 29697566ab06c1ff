"""Fair timing on a noisy machine: contestants take turns, and their best times are compared."""

import time
from collections.abc import Callable, Mapping


def best_of(
    contestants: Mapping[str, Callable[[], object]], turns: int = 7, *, rest: float = 0.0
) -> dict[str, float]:
    """Run all contestants in turn, `turns` times. Returns the best time of each, in seconds.

    It waits `rest` seconds before each run. Contestants in several processes need that, because
    the BLAS threads of the last one spin for a while and would take a core from the next one.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for contestant in contestants.values():
        contestant()  # warm caches, compiled code and mapped pages
    for _ in range(turns):
        for name, contestant in contestants.items():
            time.sleep(rest)
            start = time.perf_counter()
            contestant()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def table(times: Mapping[str, float], floor: str, *, each: int = 1) -> str:
    """Return a Markdown table of times and their ratio to the physical floor."""
    lines = ["| contestant | ms | ms each | × floor |", "|---|---:|---:|---:|"]
    for name, seconds in times.items():
        ratio = seconds / times[floor]
        lines.append(f"| {name} | {1e3 * seconds:.1f} | {1e3 * seconds / each:.3f} | {ratio:.2f} |")
    return "\n".join(lines)
