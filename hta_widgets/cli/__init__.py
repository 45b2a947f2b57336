"""The command line: ``hta-widgets summary | export | report | diff | demo``."""

from .arguments import parse_ranks, parse_time
from .command import main

__all__ = ["main", "parse_ranks", "parse_time"]
