"""Folders that are either wholly the old state or wholly the new one.

A folder holds data files named after their own content (``vectors-0f3a….npy``) and one
``manifest.json`` that lists them with size and SHA-256. A save writes the new data files first and
then replaces the manifest in one step, so a process killed at any moment leaves the old state
readable, equal content gives equal bytes, and a reader that has the old files mapped keeps them.

No pickle anywhere: parts are ``.npy``, ``.npz``, ``.json`` or plain bytes.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from nextquery.errors import Damaged, InvalidInput, NotAFolder, StorageError
from nextquery.locks import LOCK, only_writer

MANIFEST = "manifest.json"
_OURS = re.compile(r"\.[\w.]+\.tmp|[\w]+-[0-9a-f]{16}\.\w+")

Part = np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]] | bytes | Path


@dataclass(frozen=True)
class Folder:
    """An opened folder: the manifest was checked, no data has been read."""

    path: Path
    meta: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def file(self, name: str) -> Path:
        """Where the part `name` lies."""
        return self.path / str(self.files[name]["file"])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """The array `name`, memory-mapped and read-only."""
        return np.load(self.file(name), mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]

    def raw(self, name: str) -> np.ndarray[Any, Any]:
        """The plain bytes `name`, memory-mapped and read-only."""
        if not self.files[name]["bytes"]:
            return np.empty(0, np.uint8)  # an empty file cannot be mapped
        return np.memmap(self.file(name), dtype=np.uint8, mode="r")

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of the ``.npz`` part `name`, read into memory."""
        with np.load(self.file(name), allow_pickle=False) as arrays:
            return dict(arrays)

    def verify(self) -> None:
        """Read every byte and compare it with the manifest; raises `Damaged`."""
        for name, entry in self.files.items():
            with open(self.file(name), "rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest != entry["sha256"]:
                raise Damaged(
                    f"{self.file(name)} is damaged: its SHA-256 is {digest}, the manifest says "
                    f"{entry['sha256']}. Restore the folder from a backup or build it again."
                )


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
    an earlier save of this folder wrote and whose content stands (it is not written again).

    >>> import tempfile
    >>> where = tempfile.mkdtemp()
    >>> folder = write(where, kind="demo", version=1, parts={"x.npy": np.arange(3)}, meta={"n": 3})
    >>> read(where, kind="demo", version=1).array("x.npy").tolist()
    [0, 1, 2]
    """
    root = Path(path)
    refuse_foreign(root, kind)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with only_writer(root):
            old = _entries_on_disk(root)
            files = {name: _write_part(root, name, part, old) for name, part in parts.items()}
            said = dict(meta or {})
            manifest = {"kind": kind, "version": version, "meta": said, "files": files}
            text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            replace_file(root, MANIFEST, text.encode())
            _sweep(root, keep={str(entry["file"]) for entry in files.values()})
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"could not write {root}: {error}. What was there before is untouched; "
            "free space or fix permissions and save again."
        ) from error
    return Folder(root, said, files)


def read(path: str | os.PathLike[str], *, kind: str, version: int) -> Folder:
    """Open a folder written by `write`: checks manifest, version and sizes, and reads no more."""
    root = Path(path)
    for attempt in (1, 2):
        manifest = _manifest(root, kind)
        if manifest["version"] != version:
            raise NotAFolder(
                f"{root} is a {kind} of format version {manifest['version']}; this nextquery reads "
                f"version {version}. Build it again, or install the nextquery that wrote it."
            )
        folder = Folder(root, manifest["meta"], manifest["files"])
        problem = _first_wrong_size(folder)
        if problem is None:
            return folder
        if attempt == 2 or _manifest(root, kind) == manifest:  # else: saved while we looked
            break
    raise NotAFolder(
        f"{root} is incomplete: {problem}. Restore it from a backup or build it again."
    )


def newest(folder: Folder) -> Folder:
    """The folder as it stands now, whatever was saved there since it was opened."""
    manifest = _manifest(folder.path, None)
    return Folder(folder.path, manifest["meta"], manifest["files"])


def _manifest(root: Path, kind: str | None) -> dict[str, Any]:
    wanted = kind or "folder of nextquery"
    try:
        text = (root / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        found = "there is no such folder" if not root.exists() else f"it has no {MANIFEST}"
        raise NotAFolder(
            f"{root} is not a {wanted}: {found}. Give the folder that a save wrote."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NotAFolder(f"{root} is not a {wanted}: cannot read {MANIFEST}: {error}.") from error
    try:
        manifest = json.loads(text)
        found = manifest["kind"]
        manifest["version"], manifest["meta"], manifest["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotAFolder(
            f"{root} is not a {wanted}: its {MANIFEST} cannot be understood ({error!r}). "
            "Restore it from a backup or build it again."
        ) from error
    if kind is not None and found != kind:
        raise NotAFolder(f"{root} holds a {found}, not a {kind}. Give the folder of a {kind}.")
    return dict(manifest)


def _first_wrong_size(folder: Folder) -> str | None:
    for name, entry in folder.files.items():
        file = folder.file(name)
        if not file.is_file():
            return f"{file.name} is missing"
        if (size := file.stat().st_size) != entry["bytes"]:
            return f"{file.name} has {size} bytes, {entry['bytes']} were written"
    return None


def refuse_foreign(root: Path, kind: str) -> None:
    """Raise where a save would have to mix with files that no save of this kind wrote."""
    if not root.exists():
        return
    if not root.is_dir():
        raise InvalidInput(f"cannot save a {kind} to {root}: it is a file. Name a folder.")
    if (root / MANIFEST).exists():
        _manifest(root, kind)
        return
    names = sorted(set(os.listdir(root)) - {LOCK})
    foreign = [name for name in names if not _OURS.fullmatch(name)]
    if foreign:
        raise NotAFolder(
            f"cannot save a {kind} to {root}: it holds other files ({foreign[0]!r}, …). "
            "Name a new or empty folder."
        )


def _write_part(
    root: Path, name: str, part: Part, old: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    if isinstance(part, Path):
        if part.parent.resolve() == root.resolve() and part.name in old:
            return dict(old[part.name])
        with open(part, "rb") as source:
            return _write_file(root, name, lambda stream: _copy(source, stream))
    if isinstance(part, bytes):
        return _write_file(root, name, lambda stream: stream.write(part))
    if isinstance(part, np.ndarray):
        return _write_file(root, name, lambda stream: np.save(stream, part, allow_pickle=False))
    # savez seeks, so it cannot be hashed as it streams; these parts are small.
    return _write_file(root, name, lambda stream: stream.write(_npz(part)))


def _npz(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _copy(source: IO[bytes], target: Any) -> None:
    while chunk := source.read(1 << 20):
        target.write(chunk)


class _Hashing:
    """A write-only stream that hashes and counts what passes through."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.sha256, self.bytes = stream, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        self.bytes += memoryview(data).nbytes
        return self.stream.write(data)


def _write_file(root: Path, name: str, produce: Any) -> dict[str, Any]:
    stem, _, extension = name.partition(".")
    temporary = root / f".{name}.tmp"
    try:
        with open(temporary, "wb") as raw:
            stream = _Hashing(raw)
            produce(stream)
            raw.flush()
            os.fsync(raw.fileno())
        digest = stream.sha256.hexdigest()
        final = f"{stem}-{digest[:16]}.{extension}"
        os.replace(temporary, root / final)
    finally:
        temporary.unlink(missing_ok=True)
    return {"file": final, "bytes": stream.bytes, "sha256": digest}


def replace_file(root: Path, name: str, content: bytes) -> None:
    """Write a plain file of the folder so that it is wholly the old one or wholly the new one."""
    temporary = root / f".{name}.tmp"
    try:
        with open(temporary, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, root / name)
    finally:
        temporary.unlink(missing_ok=True)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries_on_disk(root: Path) -> dict[str, Mapping[str, Any]]:
    if not (root / MANIFEST).exists():
        return {}
    files = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["files"]
    return {str(entry["file"]): entry for entry in files.values()}


def _sweep(root: Path, keep: set[str]) -> None:
    for name in os.listdir(root):
        if name not in keep and _OURS.fullmatch(name):
            (root / name).unlink()
