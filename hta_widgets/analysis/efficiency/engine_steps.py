"""Steps annotated by an inference engine, with their phase, requests and tokens.

For example, vLLM's ``execute_context_2(6144)_generation_3(3)`` is a step with 2 requests whose
prompts have 6144 tokens, and 3 requests that generate one token each. A name may also have sums
over the requests: new tokens (``sq``), visible tokens (``sk``), and their squares and products. New
tokens see half of each other, so the number of (query, key) pairs is ``sqsk - (sqsq - sq) / 2``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan
from typing import Final

import numpy as np

from hta_widgets.trace.arrays import Ints, Rows, mask_of_rows, positions_of_rows
from hta_widgets.trace.host_stack import category_mask, name_mask, nearest_ancestor
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_SUMS: Final = r"(?:sq(?P<{0}_sq>\d+)sk(?P<{0}_sk>\d+)sqsq(?P<{0}_sqsq>\d+)sqsk(?P<{0}_sqsk>\d+)"
_TOKENS: Final = r"|(?P<{0}_tokens>\d+)(?:_(?P<{0}_square>\d+))?)"
_VLLM: Final = re.compile(
    r"execute_(?:\d+_)?"
    + "_".join(
        rf"{name}_(?P<{letter}>\d+)\(" + (_SUMS + _TOKENS).format(letter) + r"\)"
        for name, letter in (("context", "c"), ("generation", "g"))
    )
)
_SGLANG: Final = re.compile(r"step\[(?P<mode>[A-Z_0-9]+) bs=(?P<bs>\d+)(?P<rest>[^\]]*)\]")
_ATOM: Final = re.compile(
    r"(?P<mode>prefill|decode)\[bs=(?P<bs>\d+)(?:/(?P<padded>\d+))? tok=(?P<tokens>\d+)"
)
_LONG_NUMBER: Final = re.compile(r"\d{19}")  # may not fit in 64 bits
_DIFFUSION: Final = re.compile(r"execute_diffusion_\d+_\d+x\d+")


@dataclass(frozen=True, slots=True)
class StepName:
    """A step of an engine. Numbers that its name does not state are -1."""

    engine: str
    phase: str
    prefill_requests: int = -1
    decode_requests: int = -1
    prefill_tokens: int = -1
    decode_tokens: int = -1
    padded_tokens: int = -1
    attention_pairs: float = float("nan")
    visible_tokens: int = -1

    @property
    def tokens(self) -> int:
        """Number of new tokens in the step; -1 if its name does not state them."""
        known = self.prefill_tokens >= 0 and self.decode_tokens >= 0
        return self.prefill_tokens + self.decode_tokens if known else -1


@lru_cache(maxsize=1 << 14)
def parse_step_name(name: str) -> StepName | None:
    """Return the step named by an annotation; None if the name is not a step's.

    Examples
    --------
    >>> parse_step_name("step[DECODE bs=64]").decode_tokens
    64
    """
    if _LONG_NUMBER.search(name):
        return None
    if match := _VLLM.match(name):
        names = {"c_tokens": "c_sq", "g_tokens": "g_sq", "c_square": "c_sqsq", "g_square": "g_sqsq"}
        stated = {key: text for key, text in match.groupdict().items() if text is not None}
        numbers = {names.get(key, key): int(text) for key, text in stated.items()}
        phase = "prefill" if numbers["c"] else "decode"
        return _step("vllm", "mixed" if numbers["c"] and numbers["g"] else phase, numbers)
    if match := _SGLANG.match(name):
        return _sglang_step(match["mode"], int(match["bs"]), match["rest"])
    if match := _ATOM.match(name):
        requests, tokens = int(match["bs"]), int(match["tokens"])
        is_prefill = match["mode"] == "prefill"
        counts = (requests, 0, tokens, 0) if is_prefill else (0, requests, 0, tokens)
        return StepName("atom", match["mode"], *counts, padded_tokens=int(match["padded"] or -1))
    return StepName("diffusion", "") if _DIFFUSION.match(name) else None


def _step(engine: str, phase: str, numbers: Mapping[str, int]) -> StepName:
    """Return a step from its prefill numbers ``c`` and its decode numbers ``g``.

    ``c`` and ``c_sq`` count requests and new tokens. Other numbers are sums over requests.
    """
    pairs, visible = 0.0, 0
    for part in "cg":
        if numbers.get(part, -1):
            tokens, square = (numbers.get(f"{part}_{name}", -1) for name in ("sq", "sqsq"))
            # Older names do not state visible tokens. All tokens of a prompt are new.
            product = numbers.get(f"{part}_sqsk", square)
            pairs += product - (square - tokens) / 2 if square >= 0 else float("nan")
            visible += numbers.get(f"{part}_sk", tokens)
    visible = -1 if isnan(pairs) else visible
    c, g, c_sq, g_sq = (numbers.get(name, -1) for name in ("c", "g", "c_sq", "g_sq"))
    return StepName(engine, phase, c, g, c_sq, g_sq, attention_pairs=pairs, visible_tokens=visible)


def _sglang_step(mode: str, requests: int, rest: str) -> StepName:
    numbers = {key: int(text) for key, text in re.findall(r"(\w+)=(\d+)", rest)}
    if mode == "DECODE":
        numbers = {"c": 0, "c_sq": 0, "g": requests, "g_sq": requests} | numbers
        return _step("sglang", "decode", numbers)
    if mode == "EXTEND":
        tokens = numbers.get("toks", numbers.get("c_sq", -1))
        numbers |= {"c": requests, "c_sq": tokens, "g": 0, "g_sq": 0}
        return _step("sglang", "prefill", numbers)
    # In speculative decoding, the name does not state which tokens are new.
    return _step("sglang", "mixed", numbers) if mode == "MIXED" else StepName("sglang", "")


@dataclass(frozen=True, eq=False)
class EngineSteps:
    """The steps of a rank, sorted by start."""

    rows: Rows
    names: list[StepName]


@memoize
def engine_steps(trace: Trace) -> EngineSteps:
    """Return the outermost step annotations."""
    table = trace.table
    names = table.names
    is_step = name_mask(trace, lambda name: parse_step_name(name) is not None)
    is_step &= category_mask(trace, "user_annotation|cpu_op|operator")
    rows = np.flatnonzero(is_step)
    is_nested = nearest_ancestor(table.parent, is_step)[table.parent[rows]] >= 0
    nested, outermost = rows[is_nested], rows[~is_nested]
    outermost = outermost[np.argsort(table.start_ns[outermost], kind="stable")]
    nested_steps, steps = (
        [parse_step_name(names[code]) or StepName("", "") for code in table.name[of].tolist()]
        for of in (nested, outermost)
    )
    # SGLang's scheduler wraps its own annotations in annotations in vLLM's format.
    if {step.engine for step in nested_steps} == {"sglang"}:
        steps = [replace(step, engine="sglang") for step in steps]
    return EngineSteps(outermost, steps)


def step_of_events(trace: Trace, steps: Rows, rows: Rows) -> Ints:
    """Return the step around each host event, on its thread or by time; -1 if there is none."""
    table = trace.table
    above = nearest_ancestor(table.parent, mask_of_rows(steps, len(table)))[rows]
    enclosing = positions_of_rows(steps, len(table))[above]
    # A thread without the annotation may launch work of the step as well.
    start = table.start_ns[rows]
    latest = np.searchsorted(table.start_ns[steps], start, side="right") - 1
    is_inside = (latest >= 0) & (start < table.end_ns[steps[latest]])
    return np.where((enclosing < 0) & is_inside & (rows >= 0), latest, enclosing)
