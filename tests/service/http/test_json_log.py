"""Every line of the log is JSON, and repeated errors are counted instead of written."""

import json
import logging
import subprocess
import sys

from nextquery.service.http.responses import JsonLines, RepeatedLines

TROUBLE = """
import asyncio, logging, sys, threading, warnings
from nextquery.service.http import responses

responses.start(level="info", messages=False)
responses.LOGGER.info("ours")
logging.getLogger("some.library").error("theirs: %s", "first\\nsecond a secret query")
warnings.warn("a warning")

def fail(*_):
    raise KeyError("a secret query")

thread = threading.Thread(target=fail)
thread.start()
thread.join()

async def forgotten():
    task = asyncio.get_running_loop().create_task(asyncio.to_thread(fail))
    while not task.done():
        await asyncio.sleep(0.001)
    del task
    asyncio.get_running_loop().call_soon(fail)
    for _ in range(10_000):
        asyncio.get_running_loop().call_exception_handler(
            {"message": "socket.accept() out of system resource", "exception": OSError(24, "x")}
        )

asyncio.run(forgotten())

class Broken:
    def __del__(self):
        fail()

Broken()
fail()
"""


def test_every_line_is_json() -> None:
    done = subprocess.run([sys.executable, "-c", TROUBLE], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    messages = [line["message"] for line in lines]
    assert messages[:2] == ["ours", "theirs: first"]
    assert "a warning" in messages[2]
    assert messages.count("uncaught exception") == 3  # in the thread, in __del__, at the end
    assert any("never retrieved" in message for message in messages)
    assert messages.count("socket.accept() out of system resource") == 5
    assert "secret" not in done.stderr
    assert len(done.stderr) < 20_000
    assert done.returncode == 1


def test_repeated_errors_are_counted() -> None:
    now = 0.0
    repeated = RepeatedLines(clock=lambda: now)
    same = logging.LogRecord("x", logging.ERROR, "file", 1, "failed %s", ("a",), None)
    other = logging.LogRecord("x", logging.ERROR, "file", 2, "failed", None, None)
    plain = logging.LogRecord("x", logging.INFO, "file", 3, "request", None, None)
    assert sum(repeated.allows(same) for _ in range(100)) == 5
    assert repeated.allows(other)
    assert all(repeated.allows(plain) for _ in range(100))
    assert repeated.due() == []
    now = 10.0
    (summary,) = repeated.due()
    line = json.loads(JsonLines(messages=False).format(summary))
    assert (line["message"], line["repeated"]) == ("failed a", 95)
    assert repeated.due() == []
    assert repeated.allows(same)


def test_the_memory_of_repeated_lines_is_bounded() -> None:
    now = 0.0
    repeated = RepeatedLines(clock=lambda: now)
    records = [
        logging.LogRecord("x", logging.ERROR, "file", number, "failed", None, None)
        for number in range(3000)
    ]
    assert sum(map(repeated.allows, records)) == 1000
    now = 10.0
    repeated.due()
    assert sum(map(repeated.allows, records)) == 1000
