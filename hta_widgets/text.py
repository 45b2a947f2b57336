"""Format numbers like the timeline (``js/src/ui/formats.ts``), and parse times.

Spaces within numbers and before units are thin and non-breaking.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeGuard

from hta_widgets.errors import TraceError

THIN = "\u202f"
MINUS = "\u2212"
UNKNOWN = "\u2013"

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("\u00b5s", 1e3))
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

#: Control characters of terminals, characters that change the text direction, and surrogates.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LONG_WORD = re.compile(r"([^\s/]{100})[^\s/]{780,}([^\s/]{20})")

Number = float | int | None

#: A time given by the user: in ns, or a string such as ``"12.3ms"``.
Time = int | str

_UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 10**6, "s": 10**9}
_TIME = re.compile(r"([-\u2212]?(?:\d+(?:\.\d*)?|\.\d+))\s*(ns|us|µs|μs|ms|s)")


def _is_known(number: Number) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


#: Enough digits for any finite float and any requested number of decimals.
_EXACT = Context(prec=400)


def fixed_decimals(number: float, decimals: int) -> str:
    """Format a number with `decimals` decimals, rounded half up as in a browser."""
    step = Decimal(1).scaleb(-decimals)
    return str(Decimal(number).quantize(step, ROUND_HALF_UP, _EXACT))


def _group_digits(digits: str) -> str:
    integer, _, fraction = digits.partition(".")
    grouped = f"{int(integer):,}".replace(",", THIN)
    return f"{grouped}.{fraction}" if fraction else grouped


def _significant(number: float, digits: int) -> str:
    integer_digits = max(1, math.floor(math.log10(number) + 1e-12) + 1)
    text = fixed_decimals(number, max(0, digits - integer_digits))
    if len(text.replace(".", "")) > digits and "." in text:
        # Rounding may add a digit: 9.996 becomes 10.0 instead of 10.00.
        return fixed_decimals(number, max(0, digits - integer_digits - 1))
    return text


def duration(ns: Number) -> str:
    """Format a duration with three significant digits: ``1.21 ms``, ``148 ms``, ``415 ns``."""
    if not _is_known(ns):
        return UNKNOWN
    absolute = abs(float(ns))
    sign = MINUS if ns < 0 else ""
    for unit, scale in _TIME_UNITS:
        # From 999.5 of the smaller unit, three digits round up to this unit.
        if absolute >= scale * 0.9995:
            return f"{sign}{_group_digits(_significant(absolute / scale, 3))}{THIN}{unit}"
    text = str(int(absolute)) if absolute.is_integer() else _significant(absolute, 3)
    return f"{sign}{text}{THIN}ns"


def duration_delta(ns: Number) -> str:
    """Format a difference of durations: ``+24.8 ms``, ``−3.00 µs``, ``±0 ns``."""
    if not _is_known(ns):
        return UNKNOWN
    if ns == 0:
        return f"±0{THIN}ns"
    return ("+" if ns > 0 else MINUS) + duration(abs(ns))


def time_point(ns: float) -> str:
    """Format a time to the microsecond: ``451.975 ms``; from 1 s on, ``3.451 975 s``."""
    absolute, sign = abs(ns), MINUS if ns < 0 else ""
    if absolute < 1e9:
        return f"{sign}{fixed_decimals(absolute / 1e6, 3)}{THIN}ms"
    integer, fraction = fixed_decimals(absolute / 1e9, 6).split(".")
    return f"{sign}{_group_digits(integer)}.{fraction[:3]}{THIN}{fraction[3:]}{THIN}s"


def axis_time(ns: float, step: float, largest_ns: float = 0) -> str:
    """Format an axis tick with the unit and decimals required by the step between ticks.

    With `largest_ns`, the largest time on the axis, ``95 150 µs`` becomes ``95.15 ms``.
    """
    seconds, milliseconds, microseconds = _TIME_UNITS
    is_in_ms = step >= 1e5 or largest_ns >= 1e6
    unit, scale = milliseconds if is_in_ms else microseconds
    if step >= 1e9 or largest_ns >= 1e9:
        unit, scale = seconds
    decimals = max(0, math.ceil(-math.log10(step / scale) - 1e-9))
    text = fixed_decimals(abs(ns) / scale, decimals)
    sign = MINUS if ns < 0 and float(text) != 0 else ""
    return f"{sign}{_group_digits(text)}{THIN}{unit}"


def share(part: Number) -> str:
    """Format a share: ``66 %``, ``2.8 %``, ``<1 %``, ``>99 %``; ``–`` if unknown."""
    if not _is_known(part):
        return UNKNOWN
    if part <= 0:
        return f"0{THIN}%"
    if part < 0.01:
        return f"<1{THIN}%"
    if 0.995 <= part < 1:
        return f">99{THIN}%"
    return f"{fixed_decimals(part * 100, 0 if part >= 0.0995 else 1)}{THIN}%"


def share_delta(part: Number) -> str:
    """Format a relative change: ``+60 %``, ``−2.8 %``, ``±0 %``."""
    if not _is_known(part):
        return UNKNOWN
    absolute = abs(part)
    text = fixed_decimals(absolute * 100, 0 if absolute >= 0.0995 else 1)
    if float(text) == 0:
        return f"±0{THIN}%"
    return f"{'+' if part > 0 else MINUS}{_group_digits(text)}{THIN}%"


def count(number: Number) -> str:
    """Format a count: ``215 456``."""
    if not _is_known(number):
        return UNKNOWN
    return (MINUS if number < 0 else "") + _group_digits(fixed_decimals(abs(float(number)), 0))


def mean_count(number: float) -> str:
    """Format a mean number of calls: ``2.5``, ``2`` if nearly whole, ``0.25`` below 1."""
    if 0 < number <= 0.95:
        return f"{number:.2g}"
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def size(number: Number) -> str:
    """Format bytes in decimal units: ``26.6 MB``."""
    if not _is_known(number):
        return UNKNOWN
    amount, unit = abs(float(number)), 0
    while amount >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        amount /= 1000
        unit += 1
    text = str(round(amount)) if unit == 0 or amount == 0 else _significant(amount, 3)
    return f"{MINUS if number < 0 else ''}{text}{THIN}{_BYTE_UNITS[unit]}"


def size_range(low: int, high: int) -> str:
    """Format a range of sizes: ``5–8 B``; ``no size`` if calls have no size."""
    if high < 0:
        return "no size"
    low_text, high_text = binary_size(low), binary_size(high)
    if low_text == high_text:
        return high_text
    number, unit = low_text.split(THIN)
    has_same_unit = high_text.endswith(THIN + unit)
    return f"{number if has_same_unit else low_text}–{high_text}"


def binary_size(high: int) -> str:
    """Format a size in binary units: ``64 KiB``; ``none`` if negative."""
    if high < 0:
        return "none"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if high >= scale:
            return f"{high // scale}{THIN}{unit}"
    return f"{high}{THIN}B"


def p_value(number: float) -> str:
    """Format the p value of a test: ``p 0.043``, ``p 1``, ``p < 0.0001``."""
    return "p < 0.0001" if number < 0.0001 else f"p {float(f'{number:.2g}'):g}"


def rate(gb_per_s: Number) -> str:
    """Format gigabytes per second in decimal units: ``22.0 GB/s``."""
    if not _is_known(gb_per_s):
        return UNKNOWN
    return f"{size(gb_per_s * 1e9)}/s"


def value(number: Number, unit: str = "") -> str:
    """Format a counter value: four significant digits, or a grouped integer from 1000 on."""
    if not _is_known(number):
        return UNKNOWN
    absolute = abs(float(number))
    if absolute == int(absolute) or absolute >= 1000:
        text = _group_digits(fixed_decimals(absolute, 0))
    else:
        text = f"{absolute:.4g}"
    return f"{MINUS if number < 0 else ''}{text}{THIN + unit if unit else ''}"


def escape_controls(text: str) -> str:
    """Escape the control characters in a line for a terminal, as in JSON."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shorten_words(text: str) -> str:
    """Replace the middle of long words (900 or more characters without a slash) by ``…``."""
    return _LONG_WORD.sub(r"\1…\2", text)


def cut_text(text: str, max_length: int) -> str:
    """Cut text to at most `max_length` characters; cut text ends with ``…``."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def plural(number: int, noun: str) -> str:
    """Format a count with its noun: ``1 rank``, ``8 ranks``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def consecutive_runs(numbers: Iterable[int]) -> list[range]:
    """Group ascending numbers into consecutive runs: ``0, 1, 2, 5`` becomes 0–2 and 5."""
    runs: list[range] = []
    for number in numbers:
        if runs and number == runs[-1].stop:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs


def run_text(run: range, dash: str = "\u2013") -> str:
    """Format a run of numbers: ``5``, ``6, 7``, ``0–3``."""
    return f"{run[0]}{dash}{run[-1]}" if len(run) > 2 else ", ".join(map(str, run))


def rank_list(ranks: Iterable[int], max_runs: int = 3) -> str:
    """Format ranks: ``rank 5``, ``ranks 0–4, 6, 7`` or ``ranks 0–3, 8–11 and 24 more``."""
    numbers = sorted(map(int, ranks))
    shown = consecutive_runs(numbers)[:max_runs]
    hidden_count = len(numbers) - sum(map(len, shown))
    more_text = f" and {count(hidden_count)} more" if hidden_count else ""
    return f"rank{'' if len(numbers) == 1 else 's'} {', '.join(map(run_text, shown))}{more_text}"


def as_ns(time: Any) -> int:
    """Convert a time to ns: a number of ns, or a string such as ``"12.3ms"`` or ``"1.5 s"``."""
    if isinstance(time, str):
        match = _TIME.fullmatch(time.strip())
        if match is not None:
            time = round(Decimal(match[1].replace(MINUS, "-")) * _UNITS_NS[match[2]])
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(time, (bool, str)) and abs(ns := int(time)) < 1 << 63:
            return ns
    raise TraceError(
        f"{time!r} is not a time",
        remedy='Give a number of ns, or a string with ns, us, ms or s, for example "12.3ms".',
    )


def as_window(window: Any) -> tuple[int, int]:
    """Convert a window, given as two times for `as_ns`, to ns."""
    if isinstance(window, str) or not hasattr(window, "__len__") or len(window) != 2:
        raise TraceError(
            f"{window!r} is not a window",
            remedy='Give two times: (start_ns, end_ns), or ("12.3ms", "18ms").',
        )
    start, end = (as_ns(time) for time in window)
    if end < start:
        raise TraceError(
            f"the window ends ({end} ns) before it starts ({start} ns)",
            remedy="Swap start_ns and end_ns.",
        )
    return start, end


def valid_text(text: str) -> str:
    """Return a string with ``?`` for invalid Unicode, which Arrow rejects."""
    return text.encode("utf-8", "replace").decode("utf-8")
