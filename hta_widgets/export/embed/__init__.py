"""What a saved page holds of a job: columns, overviews, arguments, and what fits of them."""

from hta_widgets.export.embed.blocks import Block
from hta_widgets.export.embed.live import OfflineData
from hta_widgets.export.embed.plan import Embedded, embed

__all__ = ["Block", "Embedded", "OfflineData", "embed"]
