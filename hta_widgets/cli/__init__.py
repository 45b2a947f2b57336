"""The command line: ``hta-widgets summary | export | report | diff | demo``."""

from hta_widgets.cli.arguments import parse_ranks, parse_time
from hta_widgets.cli.command import main

__all__ = ["main", "parse_ranks", "parse_time"]
