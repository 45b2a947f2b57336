"""Functions that kill their own process, as an operator or the system would."""

import os
import signal
from pathlib import Path

from hta_widgets.readers.load import read_trace

#: Environment variable with the path of a file that the dying process creates.
FLAG = "HTA_WIDGETS_TEST_FLAG"


def read_or_die(path, kind, *, deaths=1, **options):
    """Read a trace file; the first `deaths` processes that read rank 3 are then killed."""
    outcome = read_trace(path, kind, **options)
    if Path(path).name.startswith("rank-3."):
        die(deaths)
    return outcome


def events_or_die(part, note):
    """Return the number of selected events; the first process that calls this is killed."""
    if part.rank == 3:
        die(1)
    return part.rank, len(part.rows), note


def die_always(trace):
    os.kill(os.getpid(), signal.SIGKILL)


def die(deaths):
    """Kill this process, unless `deaths` processes have died already."""
    for number in range(deaths):
        try:
            Path(os.environ[FLAG] + "+" * number).open("x").close()
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
