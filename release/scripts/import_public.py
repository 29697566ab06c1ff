"""Import the public modules of docs/stability.md; one may be missing only with its extra."""

import importlib
import re
import sys
from pathlib import Path

from nextquery.errors import InvalidInput

ROW = re.compile(r"^\| `(nextquery[\w.]*)` \|.*\| ([\w-]*) *\|$", re.MULTILINE)


def main() -> None:
    """Import them, and count their names."""
    rows = ROW.findall(Path(sys.argv[1]).read_text(encoding="utf-8"))
    known = {module for module, _ in rows}
    count = names = 0
    for module, extra in rows:
        try:
            found = importlib.import_module(module)
        except (ModuleNotFoundError, InvalidInput) as error:
            if extra and (isinstance(error, InvalidInput) or error.name not in known):
                continue  # the extra is not installed
            raise
        names += len([getattr(found, name) for name in found.__all__])
        count += 1
    print(f"{names} names in {count} modules")
    sys.exit(0 if count else f"{sys.argv[1]} has no table of public modules")


if __name__ == "__main__":
    main()
