"""Traces become files that open at once, and come back from them."""

from .manifest import MANIFEST, begins_manifest
from .opening import Opened, open_store
from .rank_file import Kept, KeptSource, limit_columns
from .saving import save_set, save_traces, write_files

__all__ = [
    "MANIFEST",
    "Kept",
    "KeptSource",
    "Opened",
    "begins_manifest",
    "limit_columns",
    "open_store",
    "save_set",
    "save_traces",
    "write_files",
]
