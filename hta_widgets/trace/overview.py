"""Frames that do not display what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd


class Overview(pd.DataFrame):
    """A frame whose display is short.

    Parameters
    ----------
    columns : mapping
        The columns.
    optional : sequence of str
        Columns that are not displayed if all their values are unknown: None or -1.
    if_empty : str
        Displayed instead of no rows.
    """

    def __init__(self, columns: Any, *, optional: Sequence[str] = (), if_empty: str = "") -> None:
        super().__init__(columns)  # type: ignore[call-arg] # pandas has no types
        self.attrs = {"optional": list(optional), "if_empty": if_empty}

    @property
    def _sentence(self) -> str:
        return self.attrs.get("if_empty", "") if self.empty else ""

    def _displayed(self) -> Any:
        known = self.notna() & (self != -1)
        unknown = [name for name in self.attrs.get("optional", ()) if not known[name].any()]
        return pd.DataFrame(self).drop(columns=unknown)

    def __repr__(self) -> str:
        return self._sentence or repr(self._displayed())

    def _repr_html_(self) -> Any:
        sentence = self._sentence
        return f"<p>{escape(sentence)}</p>" if sentence else self._displayed()._repr_html_()
