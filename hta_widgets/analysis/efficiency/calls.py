"""The arguments of an operator call, as recorded with ``record_shapes=True``.

A file has one entry per argument of the operator's schema in each of ``Input Dims``, ``Input
type``, ``Input Strides`` and ``Concrete Inputs``; the last list holds strings. Dims ``[]`` mean
None, a number or a tensor without dimensions, so such arguments count 0 bytes. A list of tensors is
nested one level deeper. For example, ``aten::addmm`` with a bias of 10 elements::

    call = OperatorCall(
        "aten::addmm",
        dims=[[10], [6, 8], [8, 10], [], []],
        types=["float", "float", "float", "Scalar", "Scalar"],
        strides=[[1], [8, 1], [1, 8], [], []],
        values=["", "", "", "1", "1"],
    )
    call.tensor(1).dims, call.size_bytes(0), call.number(3)

are ``(6, 8)``, 40 and 1. A `CallError` states why a figure is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final, NamedTuple

from hta_widgets.analysis.cross_rank.comm_events import bytes_of
from hta_widgets.analysis.efficiency.engine_steps import StepName
from hta_widgets.facts import facts

NO_SHAPES_NOTE: Final = (
    "no operator has the shapes of its inputs: record them with record_shapes=True"
)
_ONEDNN: Final = re.compile("mkldnn|onednn")
#: Parts of type names that only some files contain.
_OPTIONAL_IN_TYPES: Final = re.compile(r"torch\.|c10::|at::|_t$|[\s<>]")
#: Element types by category, narrowest first, with their names and ``dtype`` codes.
_TYPES: Final = facts("types")
_TYPE_NAMES: Final[dict[str, str]] = {name: row["name"] for row in _TYPES for name in row["names"]}
_TYPE_OF_CODE: Final[dict[int, str]] = {row["code"]: row["name"] for row in _TYPES}
LISTS: Final = frozenset({"TensorList", "GenericList"})
_ASSUMED_IN_LISTS: Final = "float"
#: Categories for type promotion, lowest first, and the default type of numbers in each.
_CATEGORIES: Final = ("bool", "integer", "float", "complex")
_DEFAULT_TYPES: Final = ("bool", "long int", "float", "c10::complex<float>")
#: Category and position of each type. Operands are promoted to the type with the highest.
_PROMOTION_ORDER: Final = {
    row["name"]: (_CATEGORIES.index(row["category"]), place)
    for place, row in enumerate(_TYPES)
    if row["category"] in _CATEGORIES
}
#: Floating-point and complex types.
FLOATS: Final[set[str]] = {row["name"] for row in _TYPES if row["category"] in {"float", "complex"}}
#: Type of the real and imaginary parts of each complex type.
REAL_TYPES: Final[dict[str, str]] = {row["name"]: row["parts"] for row in _TYPES if "parts" in row}


#: Name and grid of each kernel; the grid is empty if it is unknown.
Kernels = tuple[tuple[str, tuple[int, ...]], ...]


class CallContext(NamedTuple):
    """Facts, besides the arguments, that determine the work of certain calls.

    `output` is the output shape of a convolution, taken from another call; `kernels` are the
    kernels of a mixture of experts; `step` is the step of attention in an inference engine;
    `forward` are the arguments of the forward call of an autograd function; `gradients` is the
    number of gradients that a convolution's backward call computes.
    """

    output: tuple[int, ...] | None = None
    kernels: Kernels = ()
    step: StepName | None = None
    forward: tuple[bytes, ...] | None = None
    gradients: int = 2


NO_CONTEXT: Final = CallContext()


class Reason:
    """Reasons why a figure is unknown."""

    NO_SHAPES: Final = "no shapes"
    NO_DIMENSIONS: Final = "tensors without dimensions"
    NOT_NUMBERS: Final = "sizes that are not integers"
    NO_VALUES: Final = "no concrete inputs"
    UNLISTED: Final = "unlisted operator"
    DATA_DEPENDENT: Final = "data-dependent"
    CUT_LIST: Final = "cut list"
    OTHER_ARGUMENTS: Final = "arguments of an unknown version"
    UNKNOWN_TYPE: Final = "unlisted type"
    SPARSE: Final = "a sparse tensor, whose number of elements is not in the file"


class CallError(Exception):
    """Raised if a figure of a call is unknown; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument; `strides` is None if they are not in the file."""

    dims: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """Number of elements, including expanded dimensions."""
        return prod(self.dims)

    @property
    def stored(self) -> int:
        """Number of distinct elements in memory; a dimension of stride 0 is stored once."""
        if self.strides is None or len(self.strides) != len(self.dims) or 0 in self.dims:
            return self.elements
        pairs = list(zip(self.dims, self.strides, strict=True))
        span = 1 + sum((size - 1) * abs(stride) for size, stride in pairs)
        return min(prod(size for size, stride in pairs if stride), span)

    @property
    def size_bytes(self) -> float:
        """Bytes of the stored elements; 0 without dims, NaN if the type is unknown."""
        return self.stored * item_bytes(self.type) if self.dims else 0


@cache
def standard_type(name: str) -> str:
    """Return PyTorch's name of a type, given any tool's name, such as ``float16``.

    Examples
    --------
    >>> standard_type("torch.float16")
    'c10::Half'
    """
    return _TYPE_NAMES.get(_OPTIONAL_IN_TYPES.sub("", name.lower()), name)


def bits_of_small_float(type_name: str) -> int:
    """Return 8 for an 8-bit float, 4 for a pair of 4-bit floats, 0 for other types."""
    name = _OPTIONAL_IN_TYPES.sub("", type_name.lower())
    match = re.fullmatch(r"float(?:8_\w+|4_\w+_x2)", name)
    return int(name[5]) if match else 0


def item_bytes(type_name: str) -> float:
    """Return the bytes per element of a type; NaN if they are unknown."""
    size = bytes_of(type_name)
    return float("nan") if size < 0 else size


def promote(types: Sequence[str], numbers: Sequence[str] = ()) -> str:
    """Return the result type of operands of the given types; "" if unknown.

    Numbers and tensors without dims change the type only if they are of a higher category. For
    example, an integer tensor times 1.5 is a tensor of floats.
    """
    if not types or not _PROMOTION_ORDER.keys() >= set(types):
        return types[0] if len(set(types)) == 1 else ""
    name = max(types, key=_PROMOTION_ORDER.__getitem__)
    # Neither of the 16-bit types holds all values of the other.
    if {"c10::Half", "c10::BFloat16"} <= set(types) and name == "c10::BFloat16":
        name = "float"
    category = max(
        (_PROMOTION_ORDER[number][0] for number in numbers if number in _PROMOTION_ORDER), default=0
    )
    return name if category <= _PROMOTION_ORDER[name][0] else _DEFAULT_TYPES[category]


def _is_shape(dims: Any) -> bool:
    return isinstance(dims, list) and all(type(size) is int and size >= 0 for size in dims)


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """A call of an operator."""

    name: str
    dims: Sequence[Any] = ()
    types: Sequence[Any] = ()
    strides: Sequence[Any] = ()
    values: Sequence[Any] = ()
    context: CallContext = NO_CONTEXT

    def is_present(self, index: int) -> bool:
        """Return whether argument `index` is a tensor with dims, which may be symbolic."""
        dims = self.dims[index] if index < len(self.dims) else None
        is_list_of_tensors = isinstance(dims, list) and any(isinstance(size, list) for size in dims)
        return bool(dims) and not is_list_of_tensors

    def type_of(self, index: int) -> str:
        """Return the type of an argument; "" for None."""
        name = self.types[index] if index < len(self.types) else ""
        return standard_type(name) if isinstance(name, str) else ""

    def tensor(self, index: int) -> Tensor:
        """Return a tensor argument; it has no dims if the argument is a number or None."""
        dims = (self.dims[index] if index < len(self.dims) else None) or []
        if not _is_shape(dims):
            raise CallError(Reason.NOT_NUMBERS)
        strides = self.strides[index] if index < len(self.strides) else None
        # Like sparse tensors, dense tensors of oneDNN (MKL-DNN) have dims but no strides.
        is_without_strides = any(self.strides) and strides == []
        if dims and is_without_strides and not _ONEDNN.search(self.name):
            raise CallError(Reason.SPARSE)
        stated_strides = tuple(strides) if isinstance(strides, list) else None
        return Tensor(tuple(dims), self.type_of(index), stated_strides)

    def shape(self, index: int, rank: int | None = None) -> tuple[int, ...]:
        """Return the dims of a tensor argument; require `rank` dims if given."""
        dims = self.tensor(index).dims
        if not dims:
            raise CallError(Reason.NO_SHAPES)
        if rank is not None and len(dims) != rank:
            raise CallError(Reason.OTHER_ARGUMENTS)
        return dims

    def tensors(self) -> list[Tensor]:
        """Return the tensors among the arguments that have dims."""
        return [self.tensor(index) for index in range(len(self.dims)) if self.is_present(index)]

    def size_bytes(self, *places: int) -> float:
        """Return the stored bytes of the arguments at `places`; NaN if a type is unknown."""
        return sum(tensor.size_bytes for index in places for tensor in self.items(index))

    def items(self, index: int) -> list[Tensor]:
        """Return the tensors of an argument that is a tensor or a list of tensors."""
        dims = self.dims[index] if index < len(self.dims) else []
        if self.type_of(index) not in LISTS:
            return [self.tensor(index)]
        if not dims:  # the profiler writes lists of more than 30 entries as empty lists
            raise CallError(Reason.CUT_LIST)
        if not isinstance(dims, list) or not all(map(_is_shape, dims)):
            raise CallError(Reason.NOT_NUMBERS)
        return [Tensor(tuple(shape), _ASSUMED_IN_LISTS) for shape in dims]

    @property
    def has_lists(self) -> bool:
        """Whether an argument is a list of tensors, whose types are not in the file."""
        return not LISTS.isdisjoint(name for name in self.types if isinstance(name, str))

    def value(self, index: int) -> str:
        """Return a concrete argument as a string; "" for None and tensors."""
        if not self.values:
            raise CallError(Reason.NO_VALUES)
        value = self.values[index] if index < len(self.values) else ""
        return value if isinstance(value, str) else json.dumps(value)

    def flag(self, index: int, *, default: bool = False) -> bool:
        """Return a Boolean argument; `default` for None."""
        text = self.value(index)
        if text not in {"True", "False", ""}:
            raise CallError(Reason.NO_VALUES)
        return text == "True" if text else default

    def number(self, index: int, default: float = 0) -> float:
        """Return a number argument; `default` for None."""
        text = self.value(index)
        try:
            return float(text) if text else default
        except ValueError:
            raise CallError(Reason.NO_VALUES) from None

    def numbers(self, index: int, count: int | None = None) -> list[int]:
        """Return a list of integers; a single value is repeated `count` times."""
        try:
            values = json.loads(self.value(index) or "[]")
        except ValueError:
            raise CallError(Reason.NO_VALUES) from None
        values = values if isinstance(values, list) else [values]
        if not all(type(value) is int for value in values):
            raise CallError(Reason.NO_VALUES)
        if count is not None and len(values) == 1:
            values = values * count
        if count is not None and len(values) != count:
            raise CallError(Reason.CUT_LIST if not values else Reason.NO_VALUES)
        return values

    def mask(self, index: int) -> list[bool]:
        """Return an output mask, written as ``"[True, True, False]"``."""
        words = self.value(index).removeprefix("[").removesuffix("]").split(", ")
        if not {"True", "False"} >= set(words):
            raise CallError(Reason.NO_VALUES)
        return [word == "True" for word in words]

    def output_type(self, index: int, default: str) -> str:
        """Return the type that a ``dtype`` argument requests, else `default`; "" if unknown."""
        if not self.values or not str(self.value(index)).isdecimal():
            return default
        return _TYPE_OF_CODE.get(int(self.value(index)), "")


@dataclass(frozen=True)
class Work:
    """FLOPs and minimum bytes of a call; NaN if unknown, with a `reason`.

    Formulas leave `category` empty; it is set from the table of operators. The `reason` of an
    estimate or a bound states its assumption. `parameters` are further columns of
    `operator_efficiency`, such as ``m, n, k``. `type_name` is the operand type; empty means the
    type of the first tensor. `result` is the output of a pointwise operator.
    """

    category: str = ""
    flops: float = float("nan")
    model_flops: float = float("nan")
    min_bytes: float = float("nan")
    kind: str = "none"
    certainty: str = "unknown"
    reason: str = ""
    parameters: dict[str, Any] | None = None
    type_name: str = ""
    result: Tensor | None = None


def matrix_work(
    flops: float,
    min_bytes: float,
    *,
    model_flops: int | None = None,
    certainty: str = "exact",
    reason: str = "",
    **parameters: Any,
) -> Work:
    """Return the work of a matrix operator from its FLOPs and bytes."""
    model = flops if model_flops is None else model_flops
    figures = float(flops), float(model), float(min_bytes)
    return Work("", *figures, "matrix", certainty, reason, parameters)
