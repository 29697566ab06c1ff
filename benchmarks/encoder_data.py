"""Clean the logs once, into the two small files that encoder_comparison.py reads.

    python -m benchmarks.encoder_data LOG --sessions CORE --strings STRINGS --data DIR

Only this step needs DuckDB.
"""

import argparse
import lzma
from pathlib import Path

import numpy as np

from benchmarks.encoder_floors import Log, read_log, read_strings
from nextquery.encode import Sessions


class Data:
    """Texts of the log first, then of the other sessions, then further strings."""

    def __init__(self, folder: Path) -> None:
        with lzma.open(folder / "texts.xz", "rt", encoding="utf-8") as lines:
            self.wide = lines.read().split("\n")
        with np.load(folder / "sessions.npz") as arrays:
            self.other = Sessions(arrays["other_arms"], arrays["other_offsets"])
            own = Sessions(arrays["arms"], arrays["offsets"])
            self.log = Log(self.wide[: int(arrays["texts"])], own)


def prepare(args: argparse.Namespace) -> None:
    """Clean the logs and write what `run` needs to two small files."""
    log = read_log(args.log)
    other = read_log(args.sessions, shortest=2, longest=10_000)
    wide = list(dict.fromkeys(log.texts + other.texts + read_strings(args.strings)))
    place = {text: i for i, text in enumerate(wide)}
    args.data.mkdir(parents=True, exist_ok=True)
    with lzma.open(args.data / "texts.xz", "wt", encoding="utf-8", preset=6) as file:
        file.write("\n".join(wide))
    other_arms = np.array([place[text] for text in other.texts])[other.sessions.arms]
    np.savez_compressed(
        args.data / "sessions.npz",
        arms=log.sessions.arms,
        offsets=log.sessions.offsets,
        other_arms=other_arms,
        other_offsets=other.sessions.offsets,
        texts=len(log.texts),
    )
    print(f"{len(log.texts):,} texts, {log.sessions.size:,} sessions, wide pool {len(wide):,}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Clean the logs into two small files.")
    parser.add_argument("log", help="session_id, time, query (TSV)")
    parser.add_argument("--sessions", required=True, help="other sessions, never trained on")
    parser.add_argument("--strings", required=True, help="further arms, one per line")
    parser.add_argument("--data", type=Path, required=True)
    prepare(parser.parse_args())


if __name__ == "__main__":
    main()
