"""Comparison of two runs: alignment, event matching, and the causes of differences."""

from hta_widgets.diff.align import BASES, Alignment, TimeMap, align, steps
from hta_widgets.diff.changes import changes
from hta_widgets.diff.compare import Caution, Comparison, compare
from hta_widgets.diff.efficiency import efficiency_diff
from hta_widgets.diff.findings import findings
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.records import Finding
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.tables import add_table, names, operators_diff, tables
from hta_widgets.diff.waterfall import icicle, waterfall

__all__ = [
    "BASES", "Alignment", "Caution", "Comparison", "Finding", "RunSide", "TimeMap", "add_table",
    "align", "changes", "compare", "efficiency_diff", "findings", "icicle", "names",
    "operators_diff", "pairs", "steps", "tables", "waterfall",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
