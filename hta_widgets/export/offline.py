"""What an open page of a comparison keeps, so that it goes on when its kernel is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hta_widgets.live.answers import DiffAnswers
from hta_widgets.export.held import Side
from hta_widgets.export.held import held
from hta_widgets.export.live import TEXT_PER_BYTE
from hta_widgets.export.live import OfflineData
from hta_widgets.export.live import joined

__all__ = ["DiffOffline"]


class DiffOffline(OfflineData):
    """Prepares in the background what a saved page of a comparison would hold.

    Parameters
    ----------
    answers : DiffAnswers
    sides : two of (TileEngine, scene, state)
        Before and after.
    traits : mapping
        With ``_about``: what the page knows of the comparison.
    max_mb : float, default 25
        As of `OfflineData`.
    """

    def __init__(
        self,
        answers: DiffAnswers,
        sides: Sequence[Side],
        traits: Mapping[str, Any],
        *,
        max_mb: float = 25,
    ) -> None:
        super().__init__(sides[0][0], sides[0][1], max_mb=max_mb)
        self._answers, self._sides, self._traits = answers, sides, traits

    def _made(self) -> tuple[bytes, dict[str, tuple[int, int]]]:
        found = held(self._answers, self._sides, self._traits, self._limit_bytes * TEXT_PER_BYTE)
        return joined(found.document, found.blocks)
