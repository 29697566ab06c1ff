"""Find the files of a log, detect their compression, and check that they are complete."""

import glob
import gzip
import importlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nextquery.errors import InvalidInput

ACCEPTED = (
    "CSV or TSV with a header line, JSON lines, UBI records or Parquet, plain or compressed as "
    ".gz or .zst"
)
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


@dataclass(frozen=True)
class LogFile:
    """One file, with its compression detected from its bytes and its format from its name."""

    path: Path
    compression: str  #: as DuckDB calls it: "none", "gzip" or "zstd"
    format: str | None  #: from the file name; None if the name does not show it
    start: bytes  #: the first bytes on disk

    @property
    def pattern(self) -> str:
        """The path for DuckDB, escaped because DuckDB reads ``[1]`` in a name as a glob."""
        return "".join(f"[{c}]" if c in "*?[" else c for c in str(self.path))

    def first_bytes(self) -> str:
        """Describe the start of the file for messages, without text, which may be a query."""
        start = self.start[:48]
        binary = any(byte < 32 and byte not in b"\t\r\n" for byte in start) or not start.strip()
        return repr(start[:16]) if binary else "are text"


def find(log: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[LogFile]:
    """Return the files of a path, a glob or a list of either, sorted within each glob."""
    names = [log] if isinstance(log, str | os.PathLike) else list(log)
    if not names:
        raise InvalidInput("the list of log files is empty. Name at least one file.")
    paths: list[Path] = []
    for item in names:
        if not isinstance(item, str | os.PathLike):
            raise InvalidInput(
                f"a log is a path, a glob or a list of paths; received {type(item).__name__}. "
                "Records of ir_datasets need format='ir_datasets'."
            )
        paths += _expand(os.fspath(item))
    return [_inspect(path) for path in dict.fromkeys(paths)]


def _expand(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        raise InvalidInput(
            f"{path} is a folder. Name its files, for example {str(path / '*.csv')!r}."
        )
    if path.exists():
        return [path]
    matches = sorted(Path(match) for match in glob.glob(name, recursive=True))
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InvalidInput(f"there is no file {name!r}. Pass a path or a glob of existing files.")
    return files


def _inspect(path: Path) -> LogFile:
    try:
        with open(path, "rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}: {error.strerror}. Check its permissions."
        ) from None
    if not start:
        raise InvalidInput(f"{path} is empty (0 bytes). A log is {ACCEPTED}.")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(
            f"{path} is UTF-16 (it starts with {start[:2]!r}); logs are UTF-8. Convert it: "
            f"iconv -f UTF-16 -t UTF-8 {path} > utf8-{path.name}"
        )
    compression = "none"
    if start[:2] == _GZIP:
        compression = "gzip"
    elif start[:4] == _ZSTD:
        compression = "zstd"
        _check_zstd(path)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".zst")]
    named = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if start[:4] == _PARQUET:
        named = "parquet"
    return LogFile(path, compression, named, start)


def truncated(path: Path) -> InvalidInput:
    """The error for a compressed file that ends too early."""
    return InvalidInput(
        f"{path} is truncated: its compressed data ends before the end of the stream "
        f"({path.stat().st_size} bytes found). Copy or download it again."
    )


def _check_zstd(path: Path) -> None:
    """Raise an error if a .zst file is truncated: DuckDB would silently read the part that exists.

    Walks the frames (RFC 8878) from block header to block header, without decompressing.
    """
    size = path.stat().st_size
    with open(path, "rb") as stream:
        while stream.tell() < size:
            magic = int.from_bytes(_exactly(stream, 4, path), "little")
            if 0x184D2A50 <= magic <= 0x184D2A5F:  # a skippable frame
                stream.seek(int.from_bytes(_exactly(stream, 4, path), "little"), os.SEEK_CUR)
                continue
            if magic.to_bytes(4, "little") != _ZSTD:
                raise InvalidInput(
                    f"{path} is damaged: no zstd frame at byte {stream.tell() - 4}. Copy or "
                    "download it again."
                )
            descriptor = _exactly(stream, 1, path)[0]
            single, checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
            content = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
            _exactly(stream, (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + content, path)
            last = False
            while not last:
                block = int.from_bytes(_exactly(stream, 3, path), "little")
                last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
                stream.seek(1 if kind == 1 else length, os.SEEK_CUR)
            if checksum:
                stream.seek(4, os.SEEK_CUR)
        if stream.tell() > size:
            raise truncated(path)


def _exactly(stream: BinaryIO, count: int, path: Path) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise truncated(path)
    return data


def unpacked_parquet(file: LogFile, scratch: Path) -> Path:
    """Unpack a Parquet file that was compressed as a whole to `scratch`, and return its path."""
    target = scratch / f"{len(list(scratch.iterdir()))}.parquet"
    if file.compression == "gzip":
        try:
            with gzip.open(file.path) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
        except EOFError:
            raise truncated(file.path) from None
        return target
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ImportError:
        raise InvalidInput(
            f"{file.path} is Parquet inside zstd, which needs pyarrow. Install it "
            f"(pip install pyarrow), or unpack the file: zstd -d {file.path}"
        ) from None
    with (
        pyarrow.input_stream(str(file.path), compression="zstd") as source,
        open(target, "wb") as out,
    ):
        shutil.copyfileobj(source, out, 1 << 20)
    return target
