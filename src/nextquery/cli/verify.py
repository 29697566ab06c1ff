"""`nextquery verify`: check every byte of a pool, an encoder or a recommender."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli.output import out, print_json, size

_BUILT_BY = {
    "nextquery pool": "nextquery ingest",
    "nextquery encoder": "nextquery train",
    "nextquery recommender": "Recommender.save",
}


def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A pool, an encoder or a recommender that nextquery wrote."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every byte of a folder against its manifest.

    Exits with 0 if all is well, and with 4 if anything is damaged, missing or not readable.
    """
    from nextquery import folders
    from nextquery.errors import Damaged

    kind, opened = folders.read_any(folder)
    problems = opened.problems()
    total = sum(int(entry["bytes"]) for entry in opened.files.values())
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "kind": kind,
                "files": len(opened.files),
                "bytes": total,
                "ok": not problems,
                "damaged": problems,
            }
        )
    elif not problems:
        out().print(f"{folder} is intact: a {kind}, {len(opened.files)} files, {size(total)}")
    if problems:
        listed = "".join(f"\n  {name}: {problem}" for name, problem in problems.items())
        raise Damaged(
            f"{folder} is damaged: {len(problems)} of {len(opened.files)} files.{listed}\nDo not "
            f"serve it. Restore the folder from a backup, or build it again with "
            f"{_BUILT_BY.get(kind, 'the command that wrote it')}. Then check the disk: files do "
            "not change by themselves."
        )
