"""What is found in a job, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hta_widgets.trace.selection import Selection

#: Text, or a rank: ``{"rank": 5, "text": "rank 5"}``, with ``"fact": True`` for one that the others
#: do not wait for, which is not red.
Piece = str | dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """One thing that takes time."""

    kind: str
    share: float
    parts: list[Piece]
    label: str
    selection: Selection


@dataclass(frozen=True)
class Headline:
    """What matters most."""

    text_parts: list[Piece] = field(default_factory=list)
    sentences: list[list[Piece]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def late_ranks(self) -> list[int]:
        """The ranks that the others wait for, which every panel marks in red."""
        waits = [one.selection.ranks or () for one in self.findings if one.kind == "waiting"]
        return [rank for ranks in waits for rank in ranks]

    @property
    def fact_ranks(self) -> list[int]:
        """The ranks that are named as a fact, which every panel marks in ink."""
        pieces = [piece for parts in (self.text_parts, *self.sentences) for piece in parts]
        return [int(one["rank"]) for one in pieces if isinstance(one, dict) and "fact" in one]

    @property
    def text(self) -> str:
        """The headline alone."""
        return text_of(self.text_parts)

    def __str__(self) -> str:
        return " ".join(text_of(parts) for parts in (self.text_parts, *self.sentences) if parts)

    def to_json(self) -> dict[str, Any]:
        """Return it as the page takes it."""
        return {
            "headline": self.text_parts,
            "more": self.sentences,
            "late_ranks": self.late_ranks,
            "fact_ranks": self.fact_ranks,
            "findings": [
                {
                    "kind": one.kind,
                    "share": one.share,
                    "text": text_of(one.parts),
                    "label": one.label,
                    "selection": one.selection.to_json(),
                }
                for one in self.findings
            ],
        }


def text_of(parts: list[Piece]) -> str:
    """Return a sentence without its links."""
    return "".join(part if isinstance(part, str) else str(part["text"]) for part in parts)
