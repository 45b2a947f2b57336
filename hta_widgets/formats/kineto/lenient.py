r"""Decodes records that are not valid JSON, applying the repairs that they need.

Python's decoder accepts control characters, NaN and any number. Strings with single backslashes,
such as ``"torch\nn\modules"``, and values without quotes, such as ``ncclFloat32``, are repaired
first.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import Raw

from hta_widgets.formats.kineto.records import TEXT_ARGS, Args, Record, ScopedId

_INT64 = 1 << 63
#: Fields of records that are strings, and fields that stay JSON.
_STRING_FIELDS = ("name", "cat", "pid", "tid", "bp", "s")
_JSON_FIELDS = ("ts", "dur", "id", "scope", "bind_id", "flow_in", "flow_out")
BACKSLASHES_KEPT = (
    "records with single backslashes, as in Windows paths; all backslashes in the text are kept"
)


class _Number(str):
    """A number, kept as its digits to distinguish it from a string."""

    __slots__ = ()


def decode_leniently(body: bytes) -> Any:
    """Decode JSON exactly, allowing control characters, bad UTF-8, NaN and any number."""
    return json.loads(
        body.decode("utf-8", "replace"),
        strict=False,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
    )


def record_of(value: dict[str, Any]) -> Record:
    """Convert a result of `decode_leniently` to a record, whatever the types of its fields."""
    phase, id2, args = value.get("ph"), value.get("id2"), value.get("args")
    letter = phase if isinstance(phase, str) and not isinstance(phase, _Number) else ""
    fields: dict[str, Any] = {name: _text(value.get(name)) for name in _STRING_FIELDS}
    fields |= {name: _json_text(value.get(name)) for name in _JSON_FIELDS}
    record = Record(ph=letter, **fields)
    if isinstance(id2, dict):
        record.id2 = ScopedId(_json_text(id2.get("local")), _json_text(id2.get("global")))
    if isinstance(args, dict):
        record.args = Args(
            _integer(args.get("stream")),
            _integer(args.get("correlation")),
            _integer(args.get("correlation id")),
            **{field: _json_text(args[key]) for field, key in TEXT_ARGS.items() if key in args},
        )
    return record


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return encodable(str(value))
    return bytes(_json_text(value)).decode()


def _json_text(value: Any) -> Raw:
    return Raw(b"") if value is None else Raw(encode_json(value))


def encode_json(value: Any) -> bytes:
    """Encode a result of `decode_leniently`. Numbers keep their digits; NaN is quoted."""
    return msgspec.json.encode(_encodable_value(value))


def _encodable_value(value: Any) -> Any:
    if isinstance(value, _Number):
        return str(value) if value.lstrip("-") in {"NaN", "Infinity"} else Raw(value.encode())
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(key): _encodable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable_value(item) for item in value]
    return value


def _integer(value: Any) -> int:
    try:
        number = int(float(value)) if "." in str(value) or "e" in str(value) else int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -_INT64 <= number < 2 * _INT64 else -1


def encodable(text: str) -> str:
    """Replace lone surrogates, which other programs would reject."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


#: A string. If unterminated, it extends to the end of the text, so each byte is scanned once.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_BACKSLASHES = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_DRIVE = re.compile(rb'"[A-Za-z]:\\[bfnrtu]')
#: A path in which each backslash happens to begin a valid escape: ``"torch\\nn\\functional"``.
_PATH = re.compile(
    rb'"(?:[A-Za-z]:)?[\w.\-\x80-\xff]*(?:\\[bfnrt][\w.\-\x80-\xff]+)+(?:\(\d+\): [^"\\]*)?"'
)
#: Features that do not occur in labels of two lines: a drive, a rare control character, or a line
#: number of a file. A file name is not enough, because it may be the second line of a label
#: (``"loss\\ntrain.py"``).
_SURE_PATH = re.compile(
    rb'"[A-Za-z]:\\|\\[bfr]|\.(py|pyx|pyd|c|cc|cpp|cu|cuh|h|hpp|dll|exe|ipynb)\(\d+\): [^"]*"$'
)
_CONTROLS = {
    ord(decoded): f"\\{letter}" for decoded, letter in zip("\b\f\n\r\t", "bfnrt", strict=True)
}
_CONTROL = re.compile("[\b\f\n\r\t]")
_JSON_VALUE = re.compile(
    rb"true|false|null|NaN|-?Infinity|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\s*"
)
#: A string, a comma or colon that lacks its value, or a value without quotes.
_BARE_VALUE = re.compile(
    _TEXT.pattern
    + rb"|(?P<comma>,\s*)(?=[}\]])|(?P<colon>:\s*)(?=[,}\]])"
    + rb'|(?P<before>[:,\[]\s*)(?P<value>[^\s"\[\]{},:][^"\[\]{},]*)',
    re.DOTALL,
)


def with_backslashes_escaped(body: bytes) -> bytes:
    r"""Double the backslashes of each string in which a backslash does not begin a valid escape.

    In ``"torch\nn\modules"``, ``\m`` is not a valid escape. Therefore, none of the backslashes is
    treated as an escape.
    """
    return _TEXT.sub(lambda text: _escape_backslashes(text[0]), body)


def _escape_backslashes(text: bytes) -> bytes:
    is_json = all(match[1] for match in _BACKSLASHES.finditer(text))
    if is_json and not _DRIVE.match(text) and not _is_path(text):
        return text
    # Quotes stay escaped, because unescaped they would end the string.
    return _ESCAPE.sub(
        lambda match: match[0] if match[1] == b'"' else match[0].replace(b"\\", b"\\\\"), text
    )


def _is_path(text: bytes) -> bool:
    return _PATH.fullmatch(text) is not None and _SURE_PATH.search(text) is not None


def has_windows_path(body: bytes) -> bool:
    r"""Return whether a string is a Windows path with single backslashes (``"D:\new"``)."""
    if b"\\" not in body:
        return False
    return _DRIVE.search(body) is not None or any(
        _is_path(match[0]) for match in _PATH.finditer(body)
    )


def with_backslashes_of_path(text: str) -> str:
    r"""Return a decoded string. In a path, replace control characters by backslashes."""
    if _CONTROL.search(text) is None or "\\" in text:
        return text
    written = text.translate(_CONTROLS)
    return written if _is_path(f'"{written}"'.encode("utf-8", "replace")) else text


def with_words_quoted(body: bytes) -> bytes:
    """Quote values that are not JSON, such as ``ncclFloat32``, ``0x7f`` or ``-inf``.

    Missing values become null, and commas before closing brackets are removed.
    """

    def repair(match: re.Match[bytes]) -> bytes:
        if match["comma"]:
            return b""
        if match["colon"]:
            return match["colon"] + b"null"
        value = match["value"]
        is_valid = value is None or _JSON_VALUE.fullmatch(value.rstrip())
        return match[0] if is_valid else b'%s"%s"' % (match["before"], value.rstrip())

    return _BARE_VALUE.sub(repair, body)
