"""An exploration in a file: labels in the order in which they were given, written atomically."""

import json
import os
from pathlib import Path
from typing import Any

from nextquery.errors import InvalidInput, NotAFolder, StorageError
from nextquery.folders import sync

KIND, VERSION = "nextquery exploration", 1


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state: after a crash the file holds the one before or this one, complete."""
    body = json.dumps({"kind": KIND, "version": VERSION, **state}, indent=1) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync(path.absolute().parent)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}. Pass another --state."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_state(path: Path) -> dict[str, Any]:
    """Return the state in a file."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError:
        state = None
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise NotAFolder(f"{path} is not a {KIND}. Pass a file that explore wrote, or a new one.")
    if state.get("version") != VERSION:
        raise NotAFolder(
            f"{path} has version {state.get('version')!r} of the format; this program reads "
            f"version {VERSION}. Use the nextquery that wrote it, or another --state."
        )
    return state


def rounds_of(state: dict[str, Any], n_rows: int) -> list[dict[int, bool]]:
    """Return the labels of each round in a state; raises if they are not of `n_rows` rows."""
    try:
        rounds = [{int(row): bool(mark) for row, mark in each} for each in state["rounds"]]
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("the state has no readable labels. Restore it from a backup.") from None
    if any(not 0 <= row < n_rows for each in rounds for row in each):
        raise InvalidInput(f"the state has labels of rows beyond the {n_rows:,} of the table.")
    return rounds
