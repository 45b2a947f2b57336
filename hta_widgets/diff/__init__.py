"""Two runs side by side: aligned, matched event by event, and the difference explained."""

from hta_widgets.diff.alignment import BASES
from hta_widgets.diff.alignment import Alignment
from hta_widgets.diff.alignment import TimeMap
from hta_widgets.diff.alignment import align
from hta_widgets.diff.cautions import Caution
from hta_widgets.diff.changes import changes
from hta_widgets.diff.findings import Finding
from hta_widgets.diff.findings import findings
from hta_widgets.diff.icicle import icicle
from hta_widgets.diff.names import names
from hta_widgets.diff.names import operators_diff
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.sides import compare
from hta_widgets.diff.steps import steps
from hta_widgets.diff.tables import add_table
from hta_widgets.diff.tables import tables
from hta_widgets.diff.waterfall import waterfall

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
