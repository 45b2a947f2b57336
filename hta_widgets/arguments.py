"""Check arguments of public functions against their annotations; match regular expressions.

Regular expressions from users run in RE2, whose run time is linear in the length of the string.
Python's engine needs exponential time for some patterns: ``(a+)+$`` takes minutes for a name of
forty ``a`` and a ``b``.
"""

from __future__ import annotations

import builtins
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial, wraps
from numbers import Real
from pathlib import Path
from reprlib import Repr
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hta_widgets.errors import TraceError
from hta_widgets.text import valid_text

Function = TypeVar("Function", bound=Callable[..., Any])

_MAX_INT = (1 << 63) - 1  # largest int64, the dtype of most columns
Count = Annotated[int, range(_MAX_INT)]
Positive = Annotated[int, range(1, _MAX_INT)]
#: Sizes of demo jobs. Larger jobs would take days to write.
Size = Annotated[int, range(1, 1 << 16)]
#: BytePS numbers partitions with unsigned 64-bit integers.
PartitionKey = Annotated[int, range(1 << 64)]

#: Parameters that are checked elsewhere, mostly in the code that selects events.
_CHECKED_ELSEWHERE = {"selection", "window", "start_ns", "end_ns", "tracks", "ids", "executor"}
_WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "True or False"),
    str: ("a string", "strings"),
    os.PathLike: ("a path", "paths"),
    Path: ("a path", "paths"),
    Callable: ("a function", "functions"),
}
_short = Repr()
_short.maxstring = _short.maxother = 60

_register_lock = threading.Lock()


def convert(value: Any, kind: Any) -> Any:
    """Convert a decoded JSON value to a type; raise `msgspec.ValidationError` on a mismatch."""
    _register(kind)
    return msgspec.convert(value, kind)


@cache
def _register(kind: object) -> None:
    """Register a type with msgspec, which crashes on concurrent first use in two threads."""
    with _register_lock:
        msgspec.json.Decoder(kind)


class _ModuleNames(dict[str, Any]):
    """The names in a module; names imported only under ``TYPE_CHECKING`` become ``Any``."""

    def __missing__(self, _name: str) -> Any:
        return Any


class _MisfitError(Exception):
    """Raised if a value does not fit a type."""


def check_arguments(function: Function) -> Function:
    """Raise a `TraceError` for arguments that do not match the annotations of their parameters.

    Whole numbers may have any numeric type, and a single item may replace a list of one item.
    Iterables are passed on as tuples. Arrays are not checked. For a class, ``__init__`` and the
    public methods are checked.
    """
    if isinstance(function, type):
        for name, attribute in list(vars(function).items()):
            if isinstance(attribute, FunctionType) and (name == "__init__" or name[0] != "_"):
                setattr(function, name, check_arguments(attribute))
        return function
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function, follow_wrapped=False).parameters.items()
    names = [name for name, parameter in parameters if parameter.kind in positional_kinds]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        kinds = _types_of(function)
        fit = partial(_fit_argument, kinds)
        positional = map(fit, names, args)  # `*args` may make `args` longer than `names`
        named = {name: fit(name, value) for name, value in options.items()}
        return function(*positional, *args[len(names) :], **named)

    return call  # type: ignore[return-value]


def match_pattern(
    pattern: str, texts: Sequence[str], *, ignore_case: bool = False
) -> npt.NDArray[np.bool_]:
    """Return which strings contain a match of an RE2 regular expression.

    Raises
    ------
    ValueError
        If the pattern is invalid.
    """
    array = pa.array(map(valid_text, texts), pa.large_string())
    try:
        matches = pc.match_substring_regex(array, pattern, ignore_case=ignore_case)
    except pa.ArrowException as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise ValueError(reason) from None
    return matches.to_numpy(zero_copy_only=False)


def require_pattern(pattern: str, subject: str) -> None:
    """Raise a `TraceError` about `subject` if RE2 rejects the pattern."""
    try:
        match_pattern(pattern, [""])  # with an empty array, Arrow would not compile the pattern
    except ValueError as cause:
        raise TraceError(
            f"{subject} is not a regular expression ({cause})",
            remedy="Use RE2 syntax, which has no lookaround or backreferences.",
        ) from None


def stack_level() -> int:
    """Return the `stacklevel` for warnings that point to the caller of this package."""
    level, frame = 1, inspect.currentframe()
    frame = frame and frame.f_back
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("hta_widgets"):
        level, frame = level + 1, frame.f_back
    return level


@cache
def _types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameter types of a function and of the functions that it wraps."""
    types: dict[str, Any] = {}
    wrapper: Any = function
    while wrapper is not None:
        wrapped = vars(wrapper).get("__wrapped__")
        # A `functools.wraps` wrapper copies the annotations of the wrapped function, whose module
        # defines the names in them.
        if wrapped is None or wrapped.__annotations__ is not wrapper.__annotations__:
            names = _ModuleNames(vars(builtins) | wrapper.__globals__)
            types = get_type_hints(wrapper, None, names, include_extras=True) | types
        wrapper = wrapped
    return {name: hint for name, hint in types.items() if name not in _CHECKED_ELSEWHERE}


def _fit_argument(kinds: Mapping[str, Any], name: str, value: object) -> Any:
    """Convert an argument to the type of its parameter; raise a `TraceError` if it does not fit."""
    kind = kinds.get(name, Any)
    try:
        return _convert_value(kind, value)
    except _MisfitError:
        shown = _short.repr(value)
        if "\n" in shown:
            shown = f"a {type(value).__name__}"
        remedy = getattr(next(iter(get_args(kind)), kind), "HOW_TO_GET", None)
        message = f"{name}= takes {_describe_type(kind)}, not {shown}"
        raise TraceError(message, remedy=remedy) from None


def _convert_value(kind: Any, value: Any) -> Any:
    """Convert a value to a type; raise `_MisfitError` if it does not fit."""
    origin: Any = get_origin(kind) or kind
    inner: tuple[Any, ...] = get_args(kind)
    if origin is Any:
        return value
    if origin in (Union, UnionType):
        for option in inner:
            with suppress(_MisfitError):
                return _convert_value(option, value)
        raise _MisfitError
    if origin in (Annotated, Literal, int, float, bool):
        return _convert_scalar(origin, inner, value)
    if origin in (Iterable, Sequence):
        is_single = isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable)
        items = (value,) if is_single else value
        return tuple(_convert_value(inner[0], item) for item in items)
    if origin is Mapping and isinstance(value, Mapping):
        keys = (_convert_value(inner[0], key) for key in value)
        values = (_convert_value(inner[1], item) for item in value.values())
        return dict(zip(keys, values, strict=True))
    if origin is tuple:
        if isinstance(value, (tuple, list)) and len(value) == len(inner):
            return tuple(map(_convert_value, inner, value))
        raise _MisfitError
    is_checked = isinstance(origin, type) and not issubclass(origin, np.ndarray)
    if is_checked and not isinstance(value, origin):
        raise _MisfitError
    return value


def _convert_scalar(origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    """Convert a value to a number, a boolean or one of the literals in `inner`."""
    if origin is float:
        return _number(float, value)
    if origin is int and abs(number := _number(int, value)) <= _MAX_INT:
        return number
    if origin is Annotated and (number := _number(int, value)) in inner[1]:  # a range
        return number
    if origin is Literal and any(type(item) is type(value) and item == value for item in inner):
        return value
    if origin is bool and isinstance(value, (int, np.bool_)):
        return bool(value)
    raise _MisfitError


def _number(kind: type, value: object) -> Any:
    """Return a finite number, as an int if `kind` is int; raise `_MisfitError` otherwise."""
    # Comparisons with NaN are false.
    if isinstance(value, Real) and not isinstance(value, bool):
        number: Any = value
        if abs(number) <= sys.float_info.max and (kind is float or number % 1 == 0):
            return number if kind is float else int(number)
    raise _MisfitError


def _describe_type(kind: Any, *, many: bool = False) -> str:
    """Describe a type in words, such as ``"a whole number or a list of strings"``."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType, Literal):
        words: list[str] = []
        options = (kind,) if origin is Literal else inner
        for option in options:
            if get_origin(option) is Literal:
                words += map(repr, get_args(option))
            elif option is not NoneType:
                words.append(_describe_type(option, many=many))
        *rest, last = words
        return f"{', '.join(rest)} or {last}" if rest else last
    if origin is Annotated:
        low, high = inner[1].start, inner[1].stop - 1
        to_text = "" if high >= _MAX_INT - 1 else f" to {high:,}"
        return f"{_describe_type(inner[0], many=many)} from {low:,}{to_text}"
    if origin in (Iterable, Sequence):
        return f"a list of {_describe_type(*inner, many=True)}"
    if origin is Mapping:
        return f"a mapping of {' to '.join(_describe_type(option, many=True) for option in inner)}"
    if origin is tuple:
        return f"({', '.join(map(_describe_type, inner))})"
    return _WORDS.get(origin, (f"a {origin.__name__}", f"{origin.__name__}s"))[many]
