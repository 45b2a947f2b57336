"""Whether a folder can be used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OperationOutcome", "is_valid_directory"]


@dataclass
class OperationOutcome:
    """Whether something worked, and why not."""

    success: bool
    reason: str


def is_valid_directory(
    path_to_directory: str,
    must_be_writable: bool = False,
) -> OperationOutcome:
    """Tell whether a folder exists, is readable and, if asked, writable."""
    if not path_to_directory:
        return OperationOutcome(success=False, reason="the folder must be a non-empty string")
    path = Path(path_to_directory)
    if not path.exists():
        return OperationOutcome(success=False, reason=f"{path} does not exist")
    if not path.is_dir():
        return OperationOutcome(success=False, reason=f"{path} is not a directory")
    if not os.access(path, os.R_OK):
        return OperationOutcome(success=False, reason=f"{path} is not readable")
    if must_be_writable and not os.access(path, os.W_OK):
        return OperationOutcome(success=False, reason=f"{path} is not writable")
    return OperationOutcome(success=True, reason="")
