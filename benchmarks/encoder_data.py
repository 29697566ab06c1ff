"""What encoder_comparison.py reads: the logs cleaned once, in two small files.

    python -m benchmarks.encoder_data LOG --sessions CORE --strings STRINGS --data DIR

Made where DuckDB is; read where it may be missing.
"""

import argparse
import lzma
from pathlib import Path

import numpy as np

from benchmarks.encoder_floors import Log, read_log, read_strings
from nextquery.encode import Sessions


class Data:
    """The log's texts first, then the other sessions' and the further strings."""

    def __init__(self, folder: Path) -> None:
        with lzma.open(folder / "texts.xz", "rt", encoding="utf-8") as lines:
            self.wide = lines.read().split("\n")
        with np.load(folder / "sessions.npz") as arrays:
            self.other = Sessions(arrays["other_arms"], arrays["other_offsets"])
            own = Sessions(arrays["arms"], arrays["offsets"])
            self.log = Log(self.wide[: int(arrays["texts"])], own)


def prepare(args: argparse.Namespace) -> None:
    """Clean once, where DuckDB is, and keep what `run` needs in two small files."""
    log = read_log(args.log)
    other = read_log(args.sessions, shortest=2, longest=10_000)
    wide = list(dict.fromkeys(log.texts + other.texts + read_strings(args.strings)))
    place = {text: i for i, text in enumerate(wide)}
    args.data.mkdir(parents=True, exist_ok=True)
    with lzma.open(args.data / "texts.xz", "wt", encoding="utf-8", preset=6) as file:
        file.write("\n".join(wide))
    there = np.array([place[text] for text in other.texts])[other.sessions.arms]
    np.savez_compressed(
        args.data / "sessions.npz",
        arms=log.sessions.arms,
        offsets=log.sessions.offsets,
        other_arms=there,
        other_offsets=other.sessions.offsets,
        texts=len(log.texts),
    )
    print(f"{len(log.texts):,} texts, {log.sessions.size:,} sessions, wide pool {len(wide):,}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Clean the logs into two small files.")
    parser.add_argument("log", help="session_id, time, query (TSV)")
    parser.add_argument("--sessions", required=True, help="other sessions, never trained on")
    parser.add_argument("--strings", required=True, help="one further arm a line")
    parser.add_argument("--data", type=Path, required=True)
    prepare(parser.parse_args())


if __name__ == "__main__":
    main()
