"""Short but distinctive names of kernels and operators.

``void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ...>``
becomes ``add``, and ``ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn`` becomes
``gemm bf16 128x64 nn``. `disambiguate` adds what distinguishes equal labels.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile, zip_longest

#: Kernels that only apply a functor, and the suffix for its name.
_WRAPPERS = {
    "vectorized_elementwise_kernel": "", "unrolled_elementwise_kernel": "",
    "unrolled_elementwise_kernel_for_multi_outputs": "", "elementwise_kernel": "",
    "elementwise_kernel_with_index": "", "index_elementwise_kernel": "index",
    "distribution_elementwise_grid_stride_kernel": "random", "reduce_kernel": "reduce",
    "multi_tensor_apply_kernel": "multi_tensor",
}  # fmt: skip
#: Templates that only wrap the functor.
_TRANSPARENT = {
    "gpu_kernel_impl", "gpu_kernel_impl_nocast", "func_wrapper_t", "ReduceOp", "UnaryFunctor",
    "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "BinaryOpListAlphaFunctor",
    "BinaryOpScalarFunctor", "BinaryOpScalarFunctor_", "UnaryOpFunctor", "UnaryOpFunctor_",
}  # fmt: skip
_NO_FUNCTOR = re.compile(
    r"^(\d|float\b|double\b|int\b|long\b|short\b|bool\b|char\b|unsigned\b|signed\b|void\b|true\b|false\b"
    r"|c10::(Half|BFloat16|complex|Float8|Scalar)|__half|__nv_bfloat16|half\b"
    r"|(?:[\w$~]+::)*([Aa]rray|\w*OffsetCalculator|TensorListMetadata|TensorListScalarListMetadata"
    r"|\w*WithCast|\w*WithoutCast|\w*Metadata|\w*PackedTensorAccessor\d*|Tensor|OpaqueType)\b)"
)
_TYPES = {
    "float": "f32", "double": "f64", "half": "f16", "bfloat16": "bf16", "int8_t": "i8",
    "uint8_t": "u8", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64",
}  # fmt: skip

_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(anonymous\)::")
#: The return type of some functions: `enable_if<condition, void>::type`.
_RETURN_TYPE = re.compile(r"^(?:typename )?std::enable_if(?:_t)?<.*?>(?:::type)? (?=[\w:]+[<(])")
_NCCL = re.compile(r"^[nr]ccl(?:Sym)?(?:Dev)?Kernel_(\w+)")
_NCCL_OLD = re.compile(
    r"^nccl([A-Z][a-z]+(?:[A-Z][a-z]+)*?)(Ring|Tree|CollNet)(LL128|LL)?Kernel_?(\w*)"
)
#: Values in a range's brackets, such as ``decode(bs=4)``. A function's brackets contain types.
_VALUES = re.compile(r"=|[\s(,]\d")
#: A single kernel for all collectives, whose name does not state the operation.
_NCCL_GENERIC = re.compile(r"^(?:void )?([nr]ccl)(?:(?:Sym)?(?:Dev)?Kernel_)?Generic")
_NCCL_ALGORITHM = re.compile(r"^(RING|TREE|NVLS\w*|COLLNET\w*|PAT)$")
_NCCL_REDUCTIONS = {"sum", "prod", "min", "max", "minmax", "premulsum", "sumpostdiv", "avg"}
_XMMA = re.compile(r"^sm\d+_xmma_(?P<what>[a-z]+)_(?P<rest>.*)$")
_XMMA_TYPE = re.compile(r"(?:^|_)(tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|s8|u8)")
_TILE = re.compile(r"tilesize(\d+x\d+x\d+)")
_XMMA_LAYOUT = re.compile(r"_([nt]{2})_[nt]_tilesize")
_ARCHITECTURE = re.compile(
    r"^(?:cudnn_(?:infer_|train_)?)?(?:volta|turing|ampere|ada|hopper|maxwell|pascal)_"
)
#: Short names of library kernels, and patterns of their full names. In the patterns, words contain
#: no underscores; otherwise matching would try many ways to split a name.
_LIBRARY_NAMES = {
    # Tensile: `Ailk` is A as stored, `Alik` is A transposed; likewise `Bljk` and `Bjlk`.
    "gemm {dtype} {tile} {layout}": (
        r"Cijk_(?P<layout>A\w{3}_B\w{3})_(?P<dtype>.8|[SDHBCZ]).*?_MT(?P<tile>\d+x\d+x\d+)"
    ),
    "gemm {dtype} {tile} {layout} {more}": (
        r"nvjet_(?:sm\d+_)?(?P<dtype>[^\W_]+)_(?P<tile>\d+x\d+)_\w*?(?P<more>bias_)?(?P<layout>[NT]{3})$"
    ),
    "conv {what} {dtype} {tile} {layout}": (
        r"igemm_(?P<what>...)_[^\W_]+_(?P<layout>nhwc|nchw)_(?P<dtype>[^\W_]+)_.*?_bt(?P<tile>\d+x\d+x\d+)"
    ),
    "bmm {dtype} {tile}": r"bmm_[^\W_]+_(?P<dtype>[^\W_]+)_[^\W_]+_t(?P<tile>\d+x\d+x\d+)",
    "fmha {what} {dtype} {tile}": (
        r"fmha_cutlass(?P<what>[FB])_(?P<dtype>[^\W_]+)_[^\W_]+_(?P<tile>\d+x\d+)"
    ),
    "fmha {what}": r"fmhaSm\d+\w?Kernel_(?P<what>\w+)",
    "triton {what} {more}": r"triton_(?P<what>[^\W_]+)_fused_(?P<more>\w+)$",
}
#: Parts of library names, and how short names write them.
_PARTS = {
    "S": "f32", "D": "f64", "H": "f16", "B": "bf16", "C": "c64", "Z": "c128",
    "tst": "bf16", "hsh": "f16", "Ailk_Bljk": "nn", "Ailk_Bjlk": "nt", "Alik_Bljk": "tn",
    "Alik_Bjlk": "tt", "wrw": "wgrad",
    "F8": "f8", "B8": "b8", "I8": "i8",
}  # fmt: skip
_ATTENTION_PASSES = {"F": "fwd", "B": "bwd"}
#: cuBLAS, cuDNN and CUTLASS: `s16816gemm` uses the instruction 16x8x16 and accumulates in f32.
_MATRIX_WORD = re.compile(r"(?P<sum>g?[shdczi])\d*(?P<what>gemm|gemv|fprop|dgrad|wgrad|cudnn)")
_PRECISION = re.compile(r"bf16|f16|fp16|tf32|f32|fp32|f64|fp64|[isu]8|e4m3|e5m2")
_SUMS = {"s": "f32", "h": "f16", "d": "f64", "c": "c64", "z": "c128", "i": "i8", "gc": "c64"}
_LAYOUT = re.compile(r"[nt]{2}|nhwc|nchw")
#: Words that describe how a kernel is implemented instead of what it computes.
_IMPLEMENTATION = re.compile(
    r"cutlass|tensorop|wmma|simt|\d+|sm\d+|ldg\d+|f2f|stages|align\w+|v\d+"
    r"|optimized|analytic|unity|stride"
)
_HEAD_SIZE = re.compile(r"kernel_traits<(\d+),.{0,80}?(bfloat16|half|float)_t")
_TILE_SHAPE = re.compile(r"C<(\d+)>, (?:cute::)?C<(\d+)>, (?:cute::)?C<(\d+)>")
_ELEMENT = re.compile(r"\b(bfloat16|half|float_e4m3|float_e5m2|tfloat32)_t\b")
_ELEMENTS = {
    "bfloat16": "bf16", "half": "f16", "float": "f32", "float_e4m3": "e4m3", "float_e5m2": "e5m2",
    "tfloat32": "tf32",
}  # fmt: skip
_PYTHON = re.compile(r"^[^\s()]+\.pyx?\(\d+\): (.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (\w+)\b.*>$")
_BYTEPS_STAGE = re.compile(r"[A-Z][A-Z0-9_]+")
#: Maximum number of characters read from a name, and maximum length of a short name.
_MAX_READ, _MAX_SHORT = 1 << 15, 200
_MAX_WRAPPERS = 50
_QUALIFIED = re.compile(r"^[A-Za-z_$~][\w$]*(?:::[A-Za-z_$~][\w$]*)*")

#: Words, and parts of words with underscores, that distinguish variants of a kernel.
_VARIANT = (
    r"(?:bf16|[Bb]float16|tf32|(?:f|fp)(?:4|6|8|16|32|64)|mxfp[468]|[iu](?:8|16|32|64)|int8"
    r"|c(?:64|128)|(?:Mx)?[eE]\dm\d)"
)
_VARIANT_PART = re.compile(
    rf"\d+(?:x\d+)+|{_VARIANT}(?:x?{_VARIANT})*|[nt]{{2,3}}|[NT]{{2,3}}|nhwc|nchw"
)
_VARIANT_WORD = re.compile(rf"d?\d+|{_VARIANT_PART.pattern}")


@lru_cache(maxsize=1 << 16)
def kernel_family(short: str) -> str:
    """Return the part of a kernel's short name that all its variants have in common.

    This is the text before the first type, tile or layout: ``gemm`` for ``gemm bf16 128x64 nn``,
    ``matmul_ogs`` for ``_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu``.
    """
    words = list(takewhile(lambda word: not _VARIANT_WORD.fullmatch(word), short.split(" ")))
    if words[:1] == ["triton"]:
        words[-1] = re.sub(r"_\d+$", "", words[-1])  # the kernel's number in the program
    if words:
        parts = words[-1].split("_")
        words[-1] = "_".join(takewhile(lambda part: not _VARIANT_PART.fullmatch(part), parts))
    return " ".join(words).strip("_ ") or short


def short_operator(name: str) -> str:
    """Return an operator's name without ``aten::`` and leading underscores."""
    return name.removeprefix("aten::").lstrip("_")


@lru_cache(maxsize=1 << 16)
def short_name(full: str) -> str:
    """Return a short name that still identifies the operation."""
    text = full.strip()[:_MAX_READ]
    for rule in (
        _short_host_name,
        _short_byteps_name,
        _short_nccl_name,
        _short_copy_name,
        _short_mangled_name,
        _short_xmma_name,
        _short_library_name,
        _short_kernel_name,
    ):
        short = rule(text)
        if short:
            return _limit_length(short)
    return _limit_length(full.strip() or full)


def _limit_length(text: str) -> str:
    """Return a string of limited length; a checksum distinguishes equal beginnings."""
    if len(text) <= _MAX_SHORT:
        return text
    return f"{text[:_MAX_SHORT]}… ({zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x})"


def _join(*words: str) -> str:
    return " ".join(filter(None, words))


def _short_host_name(text: str) -> str:
    """Shorten names of autograd, optimizers and Python functions."""
    if text.startswith("autograd::engine::evaluate_function: "):
        return text.partition(": ")[2]
    if text.startswith("Optimizer.") and "#" in text:
        return text.partition("#")[2]
    match = _PYTHON.match(text) or _BUILT_IN.match(text)
    return match[1] if match else ""


def _short_byteps_name(text: str) -> str:
    """Return the stage, as the row names the tensor; if the stage is missing, the tensor."""
    if not text.startswith("Comm."):
        return ""
    stage = text.rpartition(".")[2]
    if _BYTEPS_STAGE.fullmatch(stage):
        return stage
    return text.removeprefix("Comm.").removeprefix("byteps.")


def _short_nccl_name(text: str) -> str:
    """Return operation, algorithm, protocol, reduction and type of an NCCL or RCCL kernel."""
    generic = _NCCL_GENERIC.match(text)
    if generic:
        return f"{generic[1].upper()} collective"
    old = _NCCL_OLD.match(text)
    if old:
        name, algorithm, protocol, more = old.groups(default="")
        words = [name, algorithm.upper(), protocol.upper(), *more.split("_")]
    else:
        match = _NCCL.match(text)
        if not match:
            return ""
        words = match[1].replace("_t_", "_").removesuffix("_t").split("_")
    kind, *rest = words
    algorithm, protocol, operation, dtype, other = "", "", "", "", []
    for word in filter(None, rest):
        if _NCCL_ALGORITHM.match(word):
            algorithm = word.lower()
        elif word in {"LL", "LL128", "SIMPLE"}:
            protocol = word
        elif word.lower() in _NCCL_REDUCTIONS:
            operation = word.lower()
        elif _type(word) != word or re.fullmatch(r"(b?f|[iu])\d+", word):
            dtype = _type(word)
        else:
            other.append(word)
    return _join(kind, algorithm, protocol, operation, dtype, *other)


def _type(word: str) -> str:
    """Return the short name of a C++ type (``f32`` for ``float``), or the word itself."""
    return _TYPES.get(word) or _TYPES.get(f"{word}_t") or word


def _short_copy_name(text: str) -> str:
    """Return the name of a copy or fill without the memory kinds in brackets."""
    return text.partition(" (")[0] if text.startswith(("Memcpy", "Memset")) else ""


def _short_mangled_name(text: str) -> str:
    """Shorten a mangled name: ``_ZN2at6native13reduce_kernelILi512E…`` becomes ``reduce``."""
    if not text.startswith("_Z"):
        return ""
    tile = re.search(r"GemmShapeILi(\d+)ELi(\d+)ELi(\d+)E", text)
    shape = "x".join(tile.groups()) if tile else ""
    convolution = re.search(r"Conv(\dd)(Fprop|Dgrad|Wgrad)", text)
    if convolution:
        return _join(f"conv{convolution[1]}", convolution[2].lower(), shape)
    if shape:
        return f"gemm {shape}"
    names = _source_names(text)
    if not names:
        return ""
    if names[0] == "kentry":
        return _tidy(next((name for name in names[1:] if len(name) > 1), names[0]))
    wrapper = next((name for name in names if name in _WRAPPERS), None)
    if wrapper:
        inner = [name for name in names[names.index(wrapper) + 1 :] if name not in _TRANSPARENT]
        functor = next((name for name in inner if _FUNCTOR.search(name)), "")
        if functor:
            return _join(_functor_name(functor), _WRAPPERS[wrapper])
    return _tidy(names[0])


_FUNCTOR = re.compile(r"unctor|Ops?$|_kernel")
_LENGTH = re.compile(r"\d+")


def _source_names(text: str) -> list[str]:
    """Return the identifiers in a mangled name; the function's own is first."""
    names: list[str] = []
    head: list[str] = []  # qualified name of the function, up to I (arguments) or E (end)
    position = 3 if text.startswith("_ZN") else 2
    in_head = True
    while position < len(text):
        number = _LENGTH.match(text, position)
        if number:
            start = number.end()
            end = start + int(number[0][:6])
            name = text[start:end]
            if name and not name.startswith("_GLOBAL_"):
                (head if in_head else names).append(name)
            position = end
        else:
            in_head = in_head and text[position] not in "IE"
            position += 1
    return [*head[-1:], *names]


def _short_xmma_name(text: str) -> str:
    """Return operation, algorithm, precision, tile and layout of an XMMA kernel."""
    match = _XMMA.match(text)
    if not match:
        return ""
    rest = match["rest"]
    algorithm = "implicit_gemm" if rest.startswith("implicit_gemm") else ""
    details = (pattern.search(rest) for pattern in (_XMMA_TYPE, _TILE, _XMMA_LAYOUT))
    return _join(match["what"], algorithm, *(detail[1] for detail in details if detail))


def _short_library_name(text: str) -> str:
    for template, pattern in _LIBRARY_NAMES.items():
        match = re.match(pattern, text)  # compiled only once, because `re` caches patterns
        if match:
            return _fill_template(template, match.groupdict(default=""))
    architecture = _ARCHITECTURE.match(text)
    if re.fullmatch(r"\w+", text) and (architecture or text.startswith("cutlass")):
        plain = text[architecture.end() :] if architecture else text
        return _short_matrix_name(plain) or re.sub(r"_v\d+$", "", plain)
    return ""


def _fill_template(template: str, parts: dict[str, str]) -> str:
    """Fill a template of `_LIBRARY_NAMES` with parts of a name in their short form.

    ``gemm {dtype} {layout}`` with the parts ``B`` and ``Alik_Bljk`` becomes ``gemm bf16 tn``.
    """
    words = {key: _PARTS.get(part, part) for key, part in parts.items()}
    words["layout"] = words.get("layout", "").lower()
    words["more"] = words.get("more", "").strip("_")
    if template.startswith("fmha"):
        words["what"] = _ATTENTION_PASSES.get(parts["what"], parts["what"])
    return " ".join(template.format_map(words).split())


def _short_matrix_name(symbol: str) -> str:
    """Return operation, precision, tile, layout and other words of a cuBLAS or CUTLASS kernel.

    ``bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8`` becomes ``gemm bf16 64x64 tn relu``. Its tile
    has 64 rows and columns. The label omits that the kernel reads 64 elements of the inner
    dimension at a time, in 6 stages.
    """
    what, dtype, sums, tile, layout, more = "", "", "", "", "", []
    for word in symbol.split("_"):
        matrix = _MATRIX_WORD.fullmatch(word)
        if matrix and not what:
            what, sums = matrix["what"].replace("cudnn", "conv"), _SUMS[matrix["sum"]]
            if sums == "f32" and word.startswith("s1688"):
                sums = "tf32"
        elif _PRECISION.fullmatch(word):
            dtype = dtype or word.replace("fp", "f")
        elif re.fullmatch(r"\d+x\d+(x\d+)?", word):
            tile = tile or word
        elif _LAYOUT.fullmatch(word):
            layout = layout or word
        elif word and not _IMPLEMENTATION.fullmatch(word):
            more.append(word)
    return _join(what, dtype or sums, tile, layout, *more) if what else ""


def _short_kernel_name(text: str) -> str:
    """Shorten the signature of a kernel; return ``""`` for other strings."""
    body = re.sub(r"^(?:static )?(?:__global__ )?void ", "", text)
    body = _ANONYMOUS.sub("", _RETURN_TYPE.sub("", body))
    head = _QUALIFIED.match(body)
    if not head or body[head.end() : head.end() + 1] not in {"<", "("}:
        # Without arguments, the string is a function only if a return type precedes the name.
        return _tidy(_last_part(head[0])) if head and body != text else ""
    is_plain = body == text and "<" not in body and "::" not in head[0]
    if is_plain and not _is_signature(body[head.end() :]):
        return ""
    name = _last_part(head[0])
    arguments = _template_arguments(body, head.end())
    if name in {"Kernel", "Kernel2", "device_kernel", "kentry"} and arguments:
        return _short_wrapped_name(arguments)
    if name.startswith("flash_") and (traits := _HEAD_SIZE.search(body)):
        return f"{_tidy(name)} {_ELEMENTS[traits[2]]} d{traits[1]}"
    if name in _WRAPPERS:
        functor = _functor(arguments)
        if functor:
            return _join(functor, _WRAPPERS[name])
    tile = next((argument for argument in arguments if re.fullmatch(r"\d{2,4}", argument)), "")
    return _join(_tidy(name), tile)


def _is_signature(text: str) -> bool:
    """Return whether a string consists only of a function's argument types in brackets.

    ``context_1(512)_generation_0(0)`` is a range: its values identify it and are kept.
    """
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return position == len(text) - 1 and not _VALUES.search(text)
    return False


def _short_wrapped_name(arguments: list[str]) -> str:
    """Return the short name of a kernel launched by CUTLASS or CK through a common function."""
    # In Composable Kernel, numbers come first; in FlashAttention 3, an architecture check.
    inner = next((argument for argument in arguments if not argument.isdigit()), arguments[0])
    head = _QUALIFIED.match(inner)
    name = _last_part(head[0]) if head else inner
    if name.startswith("enable_"):
        return _short_wrapped_name(_template_arguments(inner, inner.find("<")) or [name])
    if name.startswith("cutlass"):
        return _short_matrix_name(name) or name
    # Cluster shapes have the same form as tiles, but are smaller.
    shapes, element = _TILE_SHAPE.findall(inner), _ELEMENT.search(inner)
    if not name.startswith("Gemm") or not shapes:
        return _tidy(name)
    tile = max(shapes, key=lambda shape: [len(size) for size in shape])
    return _join("gemm", _ELEMENTS[element[1]] if element else "", "x".join(tile))


def _template_arguments(text: str, position: int) -> list[str]:
    """Return the arguments of the template that opens at `position`; the text may be truncated."""
    if text[position : position + 1] != "<":
        return []
    arguments, depth, start = [], 0, position + 1
    for index in range(position, len(text)):
        char = text[index]
        if char in "<({[":
            depth += 1
        elif char in ">)}]" and text[index - 1 : index + 1] != "->":
            depth -= 1
        if depth == 0 or (char == "," and depth == 1):
            arguments.append(text[start:index].strip())
            start = index + 1
        if depth == 0:
            return arguments
    return [*arguments, text[start:].strip()]


def _functor(arguments: list[str], wrappers: int = 0) -> str:
    """Return the name of the functor among template arguments, looking through wrappers."""
    first_wrapper = ""
    for argument in arguments:
        head = _QUALIFIED.match(argument)
        if not head or _NO_FUNCTOR.match(argument):
            continue
        name = _last_part(head[0])
        if name not in _TRANSPARENT:
            return _functor_name(name)
        if wrappers < _MAX_WRAPPERS:
            inner = _functor(_template_arguments(argument, head.end()), wrappers + 1)
            if inner:
                return inner
        first_wrapper = first_wrapper or _functor_name(name)
    return first_wrapper


def _functor_name(name: str) -> str:
    """Return the operation after which a functor is named: ``add`` for ``CUDAFunctor_add``."""
    name = re.sub(r"^CUDAFunctor(?:OnSelf)?_|^launch_", "", name)
    name = re.sub(r"(?:CUDA|Cuda)?Kernel(?:Impl)?$", "", name) or name
    name = re.sub(r"(?:_?[Ff]unctor_?|Ops?|_scalar)$", "", name) or name
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _tidy(name).lower()


def _tidy(name: str) -> str:
    """Return a name without the word ``kernel`` and outer underscores."""
    short = re.sub(r"_(?:cuda_kernel|kernel_cuda|kernel_impl|kernel)(?=_|$)|Kernel$", "", name)
    return short.strip("_") or name


def _last_part(qualified_name: str) -> str:
    return qualified_name.rpartition("::")[2]


#: Maximum length of a distinguishing suffix; labels that would need a longer one are numbered.
_MAX_SUFFIX = 28
_WORDS = re.compile(r"(?:\w+::)*(\w+)")


def disambiguate(
    labels: Sequence[str], names: Sequence[str], kinds: Sequence[str] | None = None
) -> list[str]:
    """Append a distinguishing suffix to equal labels.

    The suffix is the kind. Labels of the same kind get the first word in which their full names
    differ, such as a template's type, or else a number.
    """
    texts, tags = list(labels), [""] * len(labels)
    if kinds is not None:
        for rows in _duplicates(texts):
            if len({kinds[row] for row in rows}) > 1:
                for row in rows:
                    tags[row] = kinds[row]
                    texts[row] = _append_word(labels[row], tags[row])
    for rows in _duplicates(texts):
        words = _distinguishing_words([names[row] for row in rows])
        for row, word in zip(rows, words, strict=True):
            tags[row] = ", ".join(filter(None, (tags[row], word)))
            texts[row] = _append_word(labels[row], tags[row])
    used_texts = set(texts)
    for rows in _duplicates(texts):
        text, number = texts[rows[0]], 2
        for row in rows[1:]:
            while f"{text} ({number})" in used_texts:
                number += 1
            texts[row] = f"{text} ({number})"
            used_texts.add(texts[row])
    return texts


def _duplicates(labels: Sequence[str]) -> list[list[int]]:
    """Return the positions of each label that occurs more than once, one list per label."""
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    return [rows_of_label for rows_of_label in rows.values() if len(rows_of_label) > 1]


def _append_word(label: str, word: str) -> str:
    return f"{label} ({word})" if word else label


def _distinguishing_words(names: Sequence[str]) -> list[str]:
    """Return, for each name, the first word in which it differs from the others."""
    words: list[list[str]] = [[] for _ in names]
    for words_of_name, name in zip(words, names, strict=True):
        for word in _WORDS.findall(name[:_MAX_READ]):
            # In names without brackets, underscores join the words.
            words_of_name.extend(word.split("_") if len(word) > _MAX_SUFFIX else [word])
    chosen = [""] * len(names)
    for words_at_place in zip_longest(*words, fillvalue=""):
        for rows in _duplicates(chosen):
            if len({words_at_place[row] for row in rows}) > 1:
                for row in rows:
                    new_text = ", ".join(filter(None, (chosen[row], words_at_place[row])))
                    chosen[row] = new_text if len(new_text) <= _MAX_SUFFIX else chosen[row]
    return chosen
