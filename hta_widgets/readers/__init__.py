"""Files become traces."""

from . import stages
from .load import load

__all__ = ["load", "stages"]
