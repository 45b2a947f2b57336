"""Run a command with limits on its memory and time, to protect the machine."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
from _tree import process_tree, pss_mb

__all__ = ["Ended", "end", "run"]


@dataclass(frozen=True)
class Ended:
    """The result of a command that ended or was stopped."""

    code: int
    stdout: str
    stderr: str
    peak_mb: float
    stopped: str = ""


def run(words: Sequence[str], *, stdin: str | None, timeout_s: float, limit_mb: float) -> Ended:
    """Run a command; kill it and its descendants if they exceed a limit.

    Memory is measured, because per-process limits do not work: browsers reserve far more memory
    than they use, and the workers of a pool share the limit.
    """
    peak_mb, stopped = 0.0, ""
    with tempfile.TemporaryFile("w+") as into, tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+") as err:  # fmt: skip
        into.write(stdin or "")
        into.seek(0)
        process = subprocess.Popen(words, stdin=into, stdout=out, stderr=err)
        begin = time.monotonic()
        while process.poll() is None:
            look = time.perf_counter()
            now_mb = pss_mb(process_tree(process.pid))
            peak_mb = max(peak_mb, now_mb)
            if now_mb > limit_mb:
                stopped = f"did not fit into {limit_mb / 1000:.0f} GB"
            elif time.monotonic() - begin > timeout_s:
                stopped = f"not done after {timeout_s:.0f} s"
            if stopped:
                end(process)
                break
            # Measuring must not take more than a tenth of the time.
            time.sleep(max(0.05, 9 * (time.perf_counter() - look)))
        out.seek(0)
        err.seek(0)
        return Ended(process.returncode, out.read(), err.read(), peak_mb, stopped)


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a command and its descendants."""
    for member in process_tree(process.pid):
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
