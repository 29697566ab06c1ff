"""What a log was made of: the files of an ingest, and what recognises them."""

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nextquery.logs import LogOptions
from nextquery.logs.files import files_of
from nextquery.logs.merge import Rows


def checksums(log: Any) -> list[str]:
    """Return the SHA-256 of every file of a log; nothing if it is no file.

    >>> checksums("irds:aol-ia"), checksums([object()])
    ([], [])
    """
    if not isinstance(log, str | os.PathLike | list | tuple) or str(log).startswith("irds:"):
        return []
    if isinstance(log, list | tuple) and not all(isinstance(i, str | os.PathLike) for i in log):
        return []
    found = []
    for file in files_of(log):
        with open(file.path, "rb") as stream:
            found.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return found


def ingested(rows: Rows, files: list[str]) -> dict[str, Any]:
    """Return what a report says of one ingest: its files, and how many rows from when to when."""
    return {"files": files, "rows": rows.number, "from": rows.first, "to": rows.last}


def fingerprint(log: Any, options: LogOptions) -> str:
    """Return a hash of the input of the stages: the files, the options, and this version."""
    fields = options.to_dict()
    if options.blocklist is not None and Path(options.blocklist).is_file():
        fields["blocklist"] = hashlib.sha256(Path(options.blocklist).read_bytes()).hexdigest()
    if isinstance(log, str) and log.startswith("irds:"):
        source: Any = log
    elif isinstance(log, str | os.PathLike) or options.format != "ir_datasets":
        stats = [(str(file.path), os.stat(file.path)) for file in files_of(log)]
        source = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    else:
        source = os.urandom(8).hex()  # an iterator cannot be recognised in a later run
    whole = json.dumps([source, fields, version("nextquery")], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()
