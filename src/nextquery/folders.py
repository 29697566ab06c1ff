"""Folders that are saved atomically: always the whole old state or the whole new one.

A folder contains data files named after their content (``vectors-0f3a….npy``) and one
``manifest.json`` that lists them with size and SHA-256. A save writes the new data files first and
then replaces the manifest in one step. If the process is killed at any moment, the old state stays
readable. Equal content gives equal bytes, and readers that have the old files mapped keep them.

Pickle is never used: parts are ``.npy``, ``.npz``, ``.json`` or plain bytes.
"""

import contextlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nextquery.disk import Part as Part
from nextquery.disk import make, sync, unmake, write_part, write_whole
from nextquery.errors import Damaged, InvalidInput, NotAFolder, StorageError
from nextquery.file_checks import content_problem, size_problem
from nextquery.locks import LOCK, only_writer

MANIFEST = "manifest.json"
_OURS = re.compile(r"\.[\w.]+\.tmp|[\w]+-[0-9a-f]{16}\.\w+")


@dataclass(frozen=True)
class Folder:
    """An opened folder: the manifest is checked, no data is read yet."""

    path: Path
    meta: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def file(self, name: str) -> Path:
        """Return the path of the part `name`."""
        return self.path / str(self.files[name]["file"])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """Return the array `name`, memory-mapped and read-only."""
        with self._undamaged(name):
            return np.load(self.file(name), mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]

    def raw(self, name: str) -> np.ndarray[Any, Any]:
        """Return the plain bytes `name`, memory-mapped and read-only."""
        if not self.files[name]["bytes"]:
            return np.empty(0, np.uint8)  # an empty file cannot be mapped
        return np.memmap(self.file(name), dtype=np.uint8, mode="r")

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Read the arrays of the ``.npz`` part `name` into memory."""
        with (
            self._undamaged(name),
            np.load(self.file(name), allow_pickle=False) as arrays,
        ):
            return dict(arrays)

    @contextlib.contextmanager
    def _undamaged(self, name: str) -> Iterator[None]:
        """Say of a file that cannot be read as what it is that it is damaged."""
        try:
            yield
        except (ValueError, SyntaxError, EOFError, zipfile.BadZipFile, zlib.error):
            raise Damaged(
                f"{self.file(name)} is damaged: it does not hold plain numbers. Restore the folder "
                "from a backup or build it again."
            ) from None

    def verify(self) -> None:
        """Read every byte and compare it with the manifest; raises `Damaged` with all problems."""
        if problems := self.problems():
            listed = "; ".join(f"{file}: {problem}" for file, problem in problems.items())
            raise Damaged(
                f"{self.path} is damaged: {listed}. Restore the folder from a backup or build it "
                "again."
            )

    def problems(self) -> dict[str, str]:
        """Return what is wrong with each damaged file, by file name; this reads every byte."""
        found = {}
        for name, entry in self.files.items():
            file = self.file(name)
            if problem := size_problem(file, entry) or content_problem(file, entry):
                found[file.name] = problem
        return found


def write(
    path: str | os.PathLike[str],
    *,
    kind: str,
    version: int,
    parts: Mapping[str, Part],
    meta: Mapping[str, Any] | None = None,
) -> Folder:
    """Save `parts` as the folder `path`, replacing an older state of the same kind in one step.

    A part is an array (``.npy``), a mapping of arrays (``.npz``), bytes, or the path of a file that
    an earlier save of this folder wrote (it is kept, not written again).

    >>> import tempfile
    >>> where = tempfile.mkdtemp()
    >>> folder = write(where, kind="demo", version=1, parts={"x.npy": np.arange(3)}, meta={"n": 3})
    >>> read(where, kind="demo", version=1).array("x.npy").tolist()
    [0, 1, 2]
    """
    with writing(path, kind=kind, version=version, parts=parts, meta=meta) as folder:
        pass
    return folder


@contextlib.contextmanager
def writing(
    path: str | os.PathLike[str],
    *,
    kind: str,
    version: int,
    parts: Mapping[str, Part],
    meta: Mapping[str, Any] | None = None,
    beside: Mapping[str, bytes] = MappingProxyType({}),
    within: Collection[str] = (),
) -> Iterator[Folder]:
    """`write` as a context: everything is on disk when it starts, and leaving it only renames.

    Put what else must succeed inside. If it raises, nothing changes and no files remain. `beside`
    are plain files that change with the manifest, `within` folders allowed inside a new one.
    """
    root, fields, renamed = Path(path), dict(meta or {}), False
    refuse_foreign(root, kind, within=within)
    new: list[Path] = []
    try:
        new = make(root)
        with only_writer(root):
            try:
                old = _entries_on_disk(root)
                files = {name: write_part(root, name, part, old) for name, part in parts.items()}
                manifest = {"kind": kind, "version": version, "meta": fields, "files": files}
                text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
                whole = {MANIFEST: text.encode(), **beside}
                for name, content in whole.items():
                    write_whole(root / f".{name}.tmp", content)
                yield Folder(root, fields, files)
                for name in whole:
                    os.replace(root / f".{name}.tmp", root / name)
                    renamed = True
                sync(root)
            finally:
                _sweep(root, keep=set(_entries_on_disk(root)))
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        state = "The new state is saved" if renamed else "The old state is untouched"
        raise StorageError(
            f"could not write {root}: {error}. {state}. Free space or fix permissions, then save "
            "again."
        ) from error
    finally:
        unmake(new)


def read(path: str | os.PathLike[str], *, kind: str, version: int) -> Folder:
    """Open a folder written by `write`. Checks only the manifest, the version and file sizes."""
    root = Path(path)
    for attempt in (1, 2):
        manifest = _manifest(root, kind)
        if manifest["version"] != version:
            raise NotAFolder(
                f"{root} is a {kind} of format version {manifest['version']}; this nextquery reads "
                f"version {version}. Build it again, or install the version of nextquery that "
                "wrote it."
            )
        folder = Folder(root, manifest["meta"], manifest["files"])
        problem = _first_wrong_size(folder)
        if problem is None:
            return folder
        if attempt == 2 or _manifest(root, kind) == manifest:  # else: saved meanwhile, so retry
            break
    raise NotAFolder(
        f"{root} is incomplete: {problem}. Restore it from a backup or build it again."
    )


def read_any(path: str | os.PathLike[str]) -> tuple[str, Folder]:
    """Read the manifest of a folder, whatever it contains, and return its kind and the folder.

    Sizes and versions are not checked, so that `Folder.problems` can list everything.
    """
    manifest = _manifest(Path(path), None)
    return str(manifest["kind"]), Folder(Path(path), manifest["meta"], manifest["files"])


def newest(folder: Folder) -> Folder:
    """Reread the manifest of a folder, in case it was saved again since it was opened."""
    manifest = _manifest(folder.path, None)
    return Folder(folder.path, manifest["meta"], manifest["files"])


_MADE_BY = {
    "nextquery pool": "Make one of a log: nextquery ingest LOG --out POOL. To try the built-in "
    "log: nextquery demo.",
    "nextquery encoder": "Make one of a log: nextquery train LOG --out ENCODER.",
}


def _manifest(root: Path, kind: str | None) -> dict[str, Any]:
    expected = kind or "folder of nextquery"
    try:
        text = (root / MANIFEST).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        problem = f"it has no {MANIFEST}" if root.is_dir() else "there is no such folder"
        problem = "it is a file" if root.is_file() else problem
        next_step = _MADE_BY.get(expected, "Pass a folder that a save wrote.")
        raise NotAFolder(f"{root} is not a {expected}: {problem}. {next_step}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise NotAFolder(f"{root} is not a {expected}: cannot read {MANIFEST}: {error}.") from error
    try:
        manifest = json.loads(text)
        actual = manifest["kind"]
        manifest["version"], manifest["meta"]
        for entry in manifest["files"].values():
            entry["bytes"], entry["sha256"]
            if Path(entry["file"]).name != entry["file"]:  # a manifest must not reach outside
                raise ValueError(f"{entry['file']!r} is not the name of a file in the folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAFolder(
            f"{root} is not a {expected}: its {MANIFEST} is invalid ({error!r}). "
            "Restore it from a backup or build it again."
        ) from error
    if kind is not None and actual != kind:
        raise NotAFolder(f"{root} is a {actual}, not a {kind}. Pass the folder of a {kind}.")
    return dict(manifest)


def _first_wrong_size(folder: Folder) -> str | None:
    for name, entry in folder.files.items():
        if problem := size_problem(folder.file(name), entry):
            return f"{folder.file(name).name}: {problem}"
    return None


def refuse_foreign(root: Path, kind: str, *, within: Collection[str] = ()) -> None:
    """Raise if the folder contains files that a save of this kind did not write."""
    if not root.exists():
        return
    if not root.is_dir():
        raise InvalidInput(f"cannot save a {kind} to {root}: it is a file. Pass a folder.")
    if (root / MANIFEST).exists():
        _manifest(root, kind)
        return
    names = sorted(set(os.listdir(root)) - {LOCK, *within})
    foreign = [name for name in names if not _OURS.fullmatch(name)]
    if foreign:
        raise NotAFolder(
            f"cannot save a {kind} to {root}: it contains other files ({foreign[0]!r}, …). "
            "Pass a new or empty folder."
        )


def _entries_on_disk(root: Path) -> dict[str, Mapping[str, Any]]:
    if not (root / MANIFEST).exists():
        return {}
    files = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["files"]
    return {str(entry["file"]): entry for entry in files.values()}


def _sweep(root: Path, keep: set[str]) -> None:
    for name in os.listdir(root):
        if name not in keep and _OURS.fullmatch(name):
            (root / name).unlink()
