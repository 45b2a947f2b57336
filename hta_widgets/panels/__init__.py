"""What a dashboard shows: one frame per panel for any selection, in words and in numbers."""

from hta_widgets.model.clauses import Clauses, read_clauses

from .catalog import PANELS, Panel
from .engine import PanelEngine
from .headline import Finding, Headline, headline
from .words import selection_words

__all__ = [
    "PANELS",
    "Clauses",
    "Finding",
    "Headline",
    "Panel",
    "PanelEngine",
    "headline",
    "read_clauses",
    "selection_words",
]
