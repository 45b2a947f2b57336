"""Answers what the page of a comparison asks for first, while that page is still on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from hta_widgets.live.answers import DiffAnswers

__all__ = ["answer_ahead", "first_answers"]

#: Of both sides. Of more, one answer may keep the next cell waiting for too long.
_MOST_EVENTS = 1_000_000
#: Between two answers the kernel takes what it was asked, one request in each round of its loop.
_PAUSE_S = 0.002


def first_answers(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> Iterator[None]:
    """Make what `js/src/compare/charts.ts` asks for at first, one answer at a time.

    They are kept, so that the page's own asking costs no more than the way there and back.

    Parameters
    ----------
    answers : DiffAnswers
    base : str
        How the page brings times together.
    swapped : bool
        Whether it shows after before before.
    pair : int, optional
        The pair of ranks that it shows; all by default.
    """
    shown = answers if pair is None else answers.of_pair(pair)
    yield
    for name in (f"segments:{base}", f"slots:{base}"):
        answers.frame(name)
    findings = "findings:swapped" if swapped else "findings"
    lanes = ("slots:steps", "lanes") if answers.has_device else ()
    for name in ("waterfall:kind", "steps", *lanes, "names", "changes", findings, "icicle"):
        yield
        shown.frame(name)
    # The page unfolds the largest kind.
    largest = shown.frame("waterfall:kind")["columns"]["kind"][:1]
    yield
    shown.frame("waterfall:cause" if largest == ["idle"] else "waterfall:operator")
    yield
    answers.answer({"op": "classes"})


def answer_ahead(
    answers: DiffAnswers, base: str, *, swapped: bool = False, pair: int | None = None
) -> None:
    """Begin with `first_answers`, each in a turn of its own of the kernel's event loop.

    A page takes a while to load, in which the kernel has nothing else to do; what it is asked
    meanwhile comes in between. Where no such loop runs, and of large runs, the page asks first.
    """
    if not answers.has_events or answers.events > _MOST_EVENTS:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    work = first_answers(answers, base, swapped=swapped, pair=pair)

    def turn() -> None:
        try:
            next(work)
        except Exception:  # noqa: BLE001 - the page asks for it itself, and hears why it fails
            return
        loop.call_later(_PAUSE_S, turn)

    loop.call_soon(turn)
