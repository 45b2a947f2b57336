"""Functions that kill the process they run in, once, as an operator or the system would."""

import os
import signal
from pathlib import Path

from hta_widgets.readers.load import read_trace

#: Names a file that the dying process creates.
FLAG = "HTA_WIDGETS_TEST_FLAG"


def read_or_die(path, kind, **options):
    """Read a trace file; the first process that comes to rank 3 is killed behind it."""
    outcome = read_trace(path, kind, **options)
    if Path(path).name.startswith("rank-3."):
        die_once()
    return outcome


def events_or_die(part, note):
    """Return how many events of a rank are selected; the first process that asks is killed."""
    if part.rank == 3:
        die_once()
    return part.rank, len(part.rows), note


def die_always(trace):
    """Be killed, always."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once():
    """Be killed, unless it was done before."""
    flag = Path(os.environ[FLAG])
    try:
        flag.open("x").close()
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
