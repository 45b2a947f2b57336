"""Two runs side by side: aligned, matched event by event, and the difference explained."""

from .alignment import BASES, Alignment, TimeMap, align
from .cautions import Caution
from .changes import changes
from .findings import Finding, findings
from .icicle import icicle
from .names import names, operators_diff
from .pairs import pairs
from .sides import Comparison, RunSide, compare
from .steps import steps
from .tables import add_table, tables
from .waterfall import waterfall

__all__ = [
    "BASES",
    "Alignment",
    "Caution",
    "Comparison",
    "Finding",
    "RunSide",
    "TimeMap",
    "add_table",
    "align",
    "changes",
    "compare",
    "findings",
    "icicle",
    "names",
    "operators_diff",
    "pairs",
    "steps",
    "tables",
    "waterfall",
]
