"""Commands as `nextquery …` runs them, in this process: a new one takes seconds to import."""

import io
import signal
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from nextquery import cli


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command; return its exit code and what it printed."""
    output, errors = io.StringIO(), io.StringIO()
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    code: object = 0
    with (
        patch.object(sys, "argv", ["nextquery", *arguments]),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        except Exception:  # a new process would print it too
            traceback.print_exc()
            code = 1
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
    assert code is None or isinstance(code, int), code
    printed = output.getvalue(), errors.getvalue()
    return subprocess.CompletedProcess(arguments, code or 0, *printed)
