"""Import the public modules of docs/stability.md; one may be missing only with its extra."""

import importlib
import re
import sys
from pathlib import Path

ROW = re.compile(r"^\| `(nextquery[\w.]*)` \|.*\| ([\w-]*) *\|$", re.MULTILINE)

rows = ROW.findall(Path(sys.argv[1]).read_text(encoding="utf-8"))
if not rows:
    sys.exit(f"{sys.argv[1]} has no table of public modules")
count = names = 0
for module, extra in rows:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        if extra:
            continue
        raise
    names += len([getattr(found, name) for name in found.__all__])
    count += 1
print(f"{names} names in {count} modules")
