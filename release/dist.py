"""Build the sdist and the wheel of the last commit: two builds give the same bytes.

The sdist is made from the commit's files alone, so no cache, pool or local change gets in. The
wheel is made from the unpacked sdist, so the sdist has all that a wheel needs. Both archives are
then written again in a fixed order, with fixed modes and owners and the time of the commit (or
SOURCE_DATE_EPOCH). If the built documentation site is in its folder, the wheel contains it.

The compressed bytes also depend on Python's zlib, so compare builds of one Python.

    python -m release.dist            write dist/ and its SHA256SUMS
    python -m release.dist --check    build twice, under different umasks, and compare
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = Path("src/nextquery/service/site")  # `make docs` writes it; git ignores it
_BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)


def commit_time() -> int:
    """Return SOURCE_DATE_EPOCH, or the time of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or _git("log", "-1", "--format=%ct"))


def tree(into: Path) -> None:
    """Write the files of the last commit, and the built site if there is one."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", "HEAD"))) as archive:
        archive.extractall(into, filter="data")
    if (ROOT / SITE).is_dir():
        shutil.copytree(ROOT / SITE, into / SITE)


def sdist(source: Path, out: Path, when: int) -> Path:
    """Build the sdist of a folder into `out`."""
    made = _build("build_sdist", source, out)
    with tarfile.open(made) as archive:
        entries = [(entry, _data(archive, entry)) for entry in archive.getmembers()]
    written = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=written, mtime=when) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry, data in sorted(entries, key=lambda pair: pair[0].name):
            plain = tarfile.TarInfo(entry.name)
            plain.type, plain.size, plain.mtime = entry.type, len(data), when
            plain.mode = 0o755 if entry.isdir() or entry.mode & stat.S_IXUSR else 0o644
            archive.addfile(plain, io.BytesIO(data))
    made.write_bytes(written.getvalue())
    return made


def wheel(source: Path, out: Path, when: int) -> Path:
    """Build the wheel of a folder into `out`."""
    made = _build("build_wheel", source, out)
    with zipfile.ZipFile(made) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(entries, key=_metadata_last):
            plain = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            plain.create_system, plain.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            plain.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(plain, data)
    made.write_bytes(written.getvalue())
    return made


def both(out: Path, umask: int = 0o022) -> list[Path]:
    """Build the sdist, and from it the wheel, into `out`; return their paths."""
    when = commit_time()
    before = os.umask(umask)
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, unpacked = Path(folder, "tree"), Path(folder, "unpacked")
            source.mkdir()
            tree(source)
            packed = sdist(source, out, when)
            with tarfile.open(packed) as archive:
                archive.extractall(unpacked, filter="data")
            return [packed, wheel(next(unpacked.iterdir()), out, when)]
    finally:
        os.umask(before)


def checked(out: Path) -> list[Path]:
    """Build twice, and the wheel also from the commit itself; raise unless the bytes are equal."""
    files = both(out)
    with tempfile.TemporaryDirectory() as folder:
        again, direct, source = Path(folder, "a"), Path(folder, "b"), Path(folder, "tree")
        for made in (again, direct, source):
            made.mkdir()
        tree(source)
        others = [*both(again, umask=0o077), wheel(source, direct, commit_time())]
        for file, other in zip([*files, files[1]], others, strict=True):
            if sha256(file) != sha256(other):
                kept = out / f"other-{other.name}"
                shutil.copy(other, kept)
                sys.exit(
                    f"two builds of {file.name} differ: {sha256(file)}, {sha256(other)}. "
                    f"Compare it with {kept}."
                )
    return files


def sha256(file: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _build(hook: str, source: Path, out: Path) -> Path:
    """Run a hook of the build backend in a folder of its own; return the file that it made."""
    with tempfile.TemporaryDirectory(dir=out) as folder:
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time()), "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-W", "ignore", "-c", _BUILD, hook, folder]
        done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{hook} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        (made,) = Path(folder).iterdir()
        return made.replace(out / made.name)


def _metadata_last(entry: tuple[str, bytes]) -> tuple[bool, bool, str]:
    """Order a wheel's entries: what it installs, its metadata, and RECORD at the end."""
    return ".dist-info/" in entry[0], entry[0].endswith("/RECORD"), entry[0]


def _data(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return b"" if file is None else file.read()


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def main() -> None:
    """Build into dist/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--check", action="store_true", help="build twice and compare")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    if _git("status", "--porcelain", "--untracked-files=no"):
        print("NOTE: there are changes that are not committed; they are left out.")
    site = "with" if (ROOT / SITE).is_dir() else "without"
    files = checked(options.out) if options.check else both(options.out)
    lines = [f"{sha256(file)}  {file.name}" for file in files]
    (options.out / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    print(f"{options.out}: {site} the documentation site" + ", built twice" * options.check)


if __name__ == "__main__":
    main()
