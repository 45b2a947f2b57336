"""What a page holds of single steps: a block for each, as many as there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets import diff
from hta_widgets.live.answers import DiffAnswers
from hta_widgets.export.held_blocks import HeldBlocks
from hta_widgets.export.held_blocks import frames_drawn
from hta_widgets.text import plural

__all__ = ["HeldSteps"]

#: Each takes a while to make.
_MOST_STEPS = 200


class HeldSteps(HeldBlocks):
    """The steps whose own waterfall and names a page holds.

    Parameters
    ----------
    answers : DiffAnswers
        Of the comparison.
    limit_bytes : float
        What their blocks may take together. The steps that changed most come first.

    Attributes
    ----------
    blocks : list of Block
        ``step-N``: the frames of step N by their names.
    numbers : list of int
        Which are held, ascending.
    """

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        self.of = answers.both.step_count if answers.has_events else 0
        steps = _most_changed(answers)[:_MOST_STEPS] if self.of else []
        frames = ((step, frames_drawn(answers, f":{step}")) for step in steps)
        super().__init__(limit_bytes, "step", frames)

    @property
    def words(self) -> str:
        """What is left out; empty for nothing."""
        held = len(self.numbers)
        if held == self.of:
            return ""
        if held == 0:
            return "No step can be chosen in this page: there was no room for their own figures."
        return (
            f"{held} of {plural(self.of, 'step')} can be chosen in this page, "
            "those that changed most."
        )

    def about(self) -> dict[str, Any]:
        """Return what the page has to know before anybody chooses a step."""
        return {"held_steps": self.numbers, "held_words": self.words} if self.words else {}


def _most_changed(answers: DiffAnswers) -> list[int]:
    change = np.abs(diff.steps(answers.both)["diff_ns"].to_numpy())
    return [int(step) for step in np.argsort(-change, kind="stable")]
