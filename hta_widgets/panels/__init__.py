"""What a dashboard shows: one frame per panel for any selection, in words and in numbers."""

from .catalog import PANELS, Panel
from .clauses import Clauses, read_clauses
from .engine import PanelEngine
from .words import selection_words

__all__ = ["PANELS", "Clauses", "Panel", "PanelEngine", "read_clauses", "selection_words"]
