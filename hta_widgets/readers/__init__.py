"""Files become traces."""

from . import cache, stages
from .load import load

__all__ = ["cache", "load", "stages"]
