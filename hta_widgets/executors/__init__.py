"""Work that runs in other processes: threads, pools, clusters."""

from .calls import (
    Closed,
    at_home,
    is_elsewhere,
    not_there,
    require_executor,
    result_of,
    submit,
    workers_of,
)

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
