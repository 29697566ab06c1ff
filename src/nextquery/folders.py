"""Folders that are saved atomically: readers see the whole old state or the whole new one.

A folder contains data files named after their content (``vectors-0f3a….npy``) and one
``manifest.json`` that lists them with size and SHA-256. A save writes the new data files first
and then replaces the manifest in one step. If the process is killed at any moment, the old state
stays readable. Equal content gives equal bytes, and readers that have the old files mapped keep
them.

Pickle is never used: parts are ``.npy``, ``.npz``, ``.json`` or plain bytes.

A writer holds an exclusive lock, which ends with its process, even if the process is killed.
Unfinished work is kept in a locked working folder next to the target.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from nextquery.errors import Damaged, InvalidInput, NotAFolder, StorageError

Part = np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]] | bytes | Path


def make(root: Path) -> list[Path]:
    """Create a folder and its parents. Returns those that are new, the innermost first."""
    new = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    return new


def remove_empty_folders(new: Iterable[Path]) -> None:
    """Remove the folders that are empty."""
    for folder in new:
        with contextlib.suppress(OSError):
            folder.rmdir()


def write_part(
    root: Path, name: str, part: Part, old: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Write a part under a name made from its content, and return its manifest entry.

    If the part is the path of one of the `old` files of `root`, that file is kept.
    """
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
    """A write-only stream that hashes and counts its bytes."""

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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file and flush it to disk before returning."""
    with open(path, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def sync(root: Path) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_problem(file: Path, entry: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the size of a file, or None; this reads no data.

    >>> size_problem(Path("nowhere"), {"bytes": 3})
    'the file is missing'
    """
    if not file.is_file():
        return "the file is missing"
    size = file.stat().st_size
    return None if size == entry["bytes"] else f"it has {size} bytes instead of {entry['bytes']}"


def content_problem(file: Path, entry: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the content of a file, or None; this reads every byte."""
    try:
        with open(file, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:  # a bad sector, or no permission
        return f"it cannot be read: {error.strerror or error}"
    if digest == entry["sha256"]:
        return None
    return f"its SHA-256 is {digest}, the manifest has {entry['sha256']}"


try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows: the caller must ensure a single writer)
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextlib.contextmanager
def only_writer(root: str | Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on this folder.

    Without `wait`, raises `BlockingIOError` if another process holds it. Raises
    `FileNotFoundError` if the folder is removed before the lock is acquired.
    """
    if fcntl is None:  # pragma: no cover
        yield
        return
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        descriptor = _locked(root, os.O_RDONLY, operation)
    except (BlockingIOError, FileNotFoundError):
        raise
    except OSError:  # NFS locks only files open for writing, which a folder never is
        descriptor = _locked(Path(root, LOCK), os.O_RDWR | os.O_CREAT, operation)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: str | Path, flags: int, operation: int) -> int:
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, operation)
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(f"{path} was removed and created again")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


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
    extra_files: Mapping[str, bytes] = MappingProxyType({}),
    within: Collection[str] = (),
) -> Iterator[Folder]:
    """`write` as a context: everything is on disk when it starts, and leaving it only renames.

    Put what else must succeed inside. If it raises, nothing changes and no files remain.
    `extra_files` are plain files that change with the manifest, `within` folders allowed inside a
    new one.
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
                whole = {MANIFEST: text.encode(), **extra_files}
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
        remove_empty_folders(new)


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


def work_folder_of(target: str | os.PathLike[str]) -> Path:
    """Return the working folder of `target`, however the path is spelled.

    Links are followed only if the path ends in ``..``: on a cluster, machines share a path as
    written, not what it resolves to on one of them.

    >>> work_folder_of("/nowhere/pool/inner/..").as_posix()
    '/nowhere/.pool.work'
    """
    full = Path(target).absolute()
    if full.name == "..":
        full = full.resolve()
    if not full.name:
        raise InvalidInput(f"cannot write to {target}, which has no name. Use a folder inside it.")
    return full.parent / f".{full.name}.work"


@contextlib.contextmanager
def work_on(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Create and lock the working folder. Raises if another process holds the lock.

    If the work stops early, the folder keeps its files; an empty one is removed. The lock is
    released when the process ends, even if it is killed.
    """
    work = work_folder_of(target)
    with contextlib.ExitStack() as held:
        try:
            new = make(work)
            held.enter_context(only_writer(work, wait=False))
        except (BlockingIOError, FileNotFoundError) as error:  # locked, or just removed
            raise StorageError(
                f"another process is writing to {target}: it has locked {work}. Wait for it to "
                "finish, or use another --out."
            ) from error
        except OSError as error:
            raise StorageError(
                f"could not create the working folder {work}: {error}. Fix the permissions or free "
                "space there, or use another --out."
            ) from error
        try:
            yield work
        finally:
            with contextlib.suppress(OSError):
                if set(os.listdir(work)) <= {LOCK}:
                    shutil.rmtree(work)
            remove_empty_folders(new)
