"""A process for the kill test: it forgets ann, and names every transaction that it has written.

``python -m tests.service.erasure.driver URL`` prints a line after each of them, and waits for a
line of input before the next.
"""

import sys
from typing import Any

from nextquery.service.erasure import erase as erasing
from nextquery.service.erasure.rights import DataSubject, erase
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import Writer

if __name__ == "__main__":
    erasing.AT_ONCE = 2  # several transactions for a few decisions
    store = Store.open(sys.argv[1])
    writer = Writer(store, Clock(), written=lambda: None)

    def submit(write: Any) -> Any:
        """Write, say so, and wait."""
        written = writer.submit(write).result()
        print(type(write).__name__, flush=True)
        sys.stdin.readline()
        return written

    erase(store, None, DataSubject(user_id="ann"), "", submit)
