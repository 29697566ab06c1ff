"""Compare what pip installed with the recorded hash of every file.

pip's own --require-hashes cannot install this project: it refuses an editable install, and it wants
a hash for every dependency on every platform, while torch brings other ones on each. So ``make``
lets pip write a report, compares it with ``pins/hashes.txt`` before anything is run, and deletes
the environment if a file differs. A wheel runs no code while it is installed, and this script
imports nothing that pip installed.

    python -I pins/check_hashes.py REPORT          compare; exit code 1 names what differs
    python -m pins.record_hashes INDEX             record the files of the versions that are pinned
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HASHES = Path(__file__).with_name("hashes.txt")


def normal(name: str) -> str:
    """Return the normal form of a package's name.

    >>> normal("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def recorded(lines: list[str]) -> dict[str, set[str]]:
    """Return the hashes of each package; a line is ``sha256  file``, under ``# name``.

    >>> recorded(["# h11", "63cf  h11-0.16.0-py3-none-any.whl"])
    {'h11': {'63cf'}}
    """
    found: dict[str, set[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("# "):
            name = line[2:]
            found[name] = set()
        elif line.strip():
            found[name].add(line.split()[0])
    return found


def compared(report: dict[str, Any], known: dict[str, set[str]]) -> tuple[list[str], list[str]]:
    """Return the files that differ from their record, and the packages without any."""
    differ, unknown = [], []
    for item in report["install"]:
        source = item["download_info"]
        if "archive_info" not in source:  # this project itself, from its folder
            continue
        name = normal(item["metadata"]["name"])
        file = source["url"].rpartition("/")[2]
        hashes = source["archive_info"].get("hashes", {})
        if name not in known:
            unknown.append(f"{name} {item['metadata']['version']}")
        elif hashes.get("sha256") not in known[name]:
            differ.append(f"{file}: sha256 {hashes.get('sha256', 'unknown')}")
    return differ, unknown


def main() -> None:
    """Compare a report of pip with the record."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    differ, unknown = compared(report, recorded(HASHES.read_text(encoding="utf-8").splitlines()))
    if unknown:
        print(
            f"NOTE: no hash is recorded for {', '.join(unknown)}. constraints.txt does not pin it."
        )
    if differ:
        sys.exit(
            "these files are not the ones that were recorded:\n  "
            + "\n  ".join(differ)
            + "\nCheck your package index. If you trust these builds, add their lines to "
            f"{HASHES} and try again."
        )


if __name__ == "__main__":
    main()
