"""Record the SHA-256 of every file of the versions in constraints.txt.

Wheels for CPython 3.11 to 3.14 on the usual platforms, and source archives. INDEX is the address of
a simple package index. Lines of the same versions that were added by hand stay.

    python -m pins.record_hashes INDEX
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

from packaging.utils import InvalidSdistFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from pins.check_hashes import HASHES, normal

_LINK = re.compile(r'href="[^"]*?/?([^"/#]+)#sha256=([0-9a-f]{64})"')
_PYTHONS = ("cp311", "cp312", "cp313", "cp314")
_PLATFORMS = re.compile(r"any|(many|musl)linux.*(x86_64|aarch64)|macosx.*|win_(amd64|arm64)")


def wanted(file: str, name: str, version: Version) -> bool:
    """Whether a file is of this version and may be installed by us.

    >>> wanted("h11-0.16.0-py3-none-any.whl", "h11", Version("0.16.0"))
    True
    >>> wanted("numpy-2.4.6-cp39-cp39-win32.whl", "numpy", Version("2.4.6"))
    False
    """
    try:
        if file.endswith(".whl"):
            project, built, _, tags = parse_wheel_filename(file)
            usable = any(
                (tag.abi in ("none", "abi3") or tag.abi == tag.interpreter in _PYTHONS)
                and _PLATFORMS.fullmatch(tag.platform)
                for tag in tags
            )
        else:
            project, built = parse_sdist_filename(file)
            usable = True
    except (InvalidSdistFilename, ValueError):
        return False
    return usable and normal(project) == name and Version(built.public) == version


def files(index: str, pin: str, before: list[tuple[str, str]]) -> list[str]:
    """Return the lines of one pin, like ``h11==0.16.0``; `before` has the recorded files."""
    name, _, version = pin.partition("==")
    with urlopen(f"{index.rstrip('/')}/{normal(name)}/", timeout=60) as page:
        links = _LINK.findall(page.read().decode()) + before
    lines = {
        f"{sha256}  {unquote(file)}"
        for file, sha256 in links
        if wanted(unquote(file), normal(name), Version(version))
    }
    if not lines:
        sys.exit(f"the index has no file of {pin}. Pass another index, or change the pin.")
    return [f"# {normal(name)}", *sorted(lines, key=lambda line: line.split()[1])]


def main() -> None:
    """Write the record of all pins."""
    lines = HASHES.read_text(encoding="utf-8").splitlines() if HASHES.exists() else []
    before = [(line.split()[1], line.split()[0]) for line in lines if line[:1] != "#"]
    pins = Path("constraints.txt").read_text(encoding="utf-8").split()
    with ThreadPoolExecutor(8) as threads:
        blocks = list(threads.map(lambda pin: files(sys.argv[1], pin, before), pins))
    text = "\n".join(line for block in blocks for line in block) + "\n"
    HASHES.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
