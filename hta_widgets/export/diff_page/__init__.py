"""What the page of a comparison asks for, from a kernel or from a saved file."""

from hta_widgets.export.diff_page.answers import DiffAnswers
from hta_widgets.export.diff_page.offline import DiffOffline
from hta_widgets.export.diff_page.page import save_diff

__all__ = ["DiffAnswers", "DiffOffline", "save_diff"]
