"""What a page holds of single pairs of ranks: a block for each, as many as there is room for."""

from __future__ import annotations

from typing import Any

from hta_widgets.live.answers import DiffAnswers
from hta_widgets.export.held_blocks import HeldBlocks
from hta_widgets.export.held_blocks import frames_drawn
from hta_widgets.text import plural

__all__ = ["HeldPairs"]

#: Each takes a while to make.
_MOST_PAIRS = 64


class HeldPairs(HeldBlocks):
    """The pairs of ranks whose own steps, waterfall and names a page holds.

    Parameters
    ----------
    answers : DiffAnswers
        Of the comparison.
    limit_bytes : float
        What their blocks may take together.

    Attributes
    ----------
    blocks : list of Block
        ``pair-N``: the frames of pair N by their names.
    numbers : list of int
        Which are held, ascending.
    """

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        count = len(answers.both.rank_pairs)
        self.of = count if answers.has_events and count > 1 else 0
        frames = ((pair, _frames(answers, pair)) for pair in range(min(self.of, _MOST_PAIRS)))
        super().__init__(limit_bytes, "pair", frames)

    @property
    def words(self) -> str:
        """What is left out; empty for nothing."""
        held = len(self.numbers)
        if held == self.of:
            return ""
        return f"{held} of {plural(self.of, 'pair')} of ranks can be chosen in this page."

    def about(self) -> dict[str, Any]:
        """Return what the page has to know before anybody chooses a pair of ranks."""
        return {"held_pairs": self.numbers} if self.of else {}


def _frames(answers: DiffAnswers, pair: int) -> dict[str, Any]:
    frames = frames_drawn(answers, f"@{pair}")
    for name in ("slots:steps", "steps", "lanes"):
        frames[f"{name}@{pair}"] = answers.frame(f"{name}@{pair}")
    return frames
