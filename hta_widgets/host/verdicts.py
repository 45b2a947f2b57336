"""Summarize the jobs in a folder: ranks, step time, a small picture, and a verdict.

Jobs are read one at a time in a low-priority process, so the host stays responsive::

    $ python -m hta_widgets.host.verdicts /runs/job
    {"ranks": 8, "step_ns": 34612000, "text": "7 of 8 ranks wait for rank 5 …",
     "picture": {"compute": [0, 71, …], "communication": [0, 12, …], "memory": [0, 0, …]}}
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from hta_widgets.errors import TraceError

#: Maximum size of a job that is read in advance. Larger jobs are read only when opened.
MAX_BYTES = 200 << 20
_TIMEOUT_S = 120
#: Number of bins in the small picture.
_BINS = 60


async def read_verdict(paths: Sequence[str]) -> dict[str, Any] | None:
    """Return the verdict on a job from another process, or None if the job cannot be read."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hta_widgets.host.verdicts",
        *paths,
        # `-m` imports from the working directory first, which may contain unrelated modules.
        cwd=Path(sys.executable).parent,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
        verdict = json.loads(output) if process.returncode == 0 else None
    except (TimeoutError, ValueError):
        return None
    finally:
        if process.returncode is None:
            process.kill()
    return verdict if isinstance(verdict, dict) else None


def job_verdict(paths: Sequence[str]) -> dict[str, Any]:
    """Return the number of ranks, median step time, picture and headline of a job.

    The step time is None without steps. For each bin and kind of work, the picture has the
    percentage of the ranks' time. Communication excludes overlap with compute.
    """
    # These imports take a second or two, which would delay the start of the host.
    from hta_widgets.analysis.steps import step_length, step_times
    from hta_widgets.live.job import TileEngine
    from hta_widgets.panels.headline import headline, text_of
    from hta_widgets.readers.load import load
    from hta_widgets.tiles.packing import unpack

    traces = load(paths[0] if len(paths) == 1 else list(paths), progress=False)
    steps = step_times(traces)
    columns = (steps[name].to_numpy() for name in ("step", "dur_ns", "device_span_ns"))
    step_ns = step_length(steps.attrs["ahead"], *columns)
    reply, buffer = TileEngine(traces).answer({"op": "minimap", "bins": _BINS})
    shares = unpack(reply["columns"], buffer or b"")
    return {
        "ranks": len(traces),
        "step_ns": int(median(step_ns)) if len(step_ns) else None,
        "picture": {
            "communication" if name == "exposed" else name: (100 * share).astype(int).tolist()
            for name, share in shares.items()
        },
        "text": text_of(headline(traces).text_parts),
    }


def main(paths: Sequence[str]) -> int:
    """Print the verdict on a job as JSON; return 1 if the job cannot be read."""
    if hasattr(os, "nice"):
        os.nice(10)
    try:
        sys.stdout.write(json.dumps(job_verdict(paths)))
    except TraceError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
