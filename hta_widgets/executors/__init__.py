"""Work that runs in other processes: threads, pools, clusters."""

from hta_widgets.workers import Closed
from hta_widgets.workers import at_home
from hta_widgets.workers import is_elsewhere
from hta_widgets.workers import not_there
from hta_widgets.workers import require_executor
from hta_widgets.workers import result_of
from hta_widgets.workers import submit
from hta_widgets.workers import workers_of

__all__ = [
    "Closed",
    "at_home",
    "is_elsewhere",
    "not_there",
    "require_executor",
    "result_of",
    "submit",
    "workers_of",
]
