r"""Removes folders, which name users and machines, from paths in the strings of a trace.

The path within a package remains, because it identifies the code::

    C:\Users\ann\envs\x\Lib\site-packages\torch\nn\functional.py  →  torch/nn/functional.py
    /home/ann/project/train.py(31): step                          →  train.py(31): step
    in /home/ann                                                  →  in ~

Relative paths, URLs and names such as ``jit(f)/mul`` and ``Foo::~Foo()`` are not changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

_SEPARATOR = r"[/\\]+"
_WORD = r"""[^"'\s/\\:;,()<>|*?\[\]{}]+"""
#: Beginning of an absolute path; ``file:`` or a drive may precede it, but not a word.
_BEGIN = r"(?<![\w./\\>)\]-])(?!(?<=:)//)(?:file:(?=[/\\])|[A-Za-z]:(?=[/\\]))?"
#: A user name may contain blanks if a separator follows.
_USER = rf"""(?:[^"'\n/\\:;,()<>|~]{{0,63}}[^"'\s/\\:;,()<>|](?=[/\\])|{_WORD})"""
_HOME = re.compile(
    rf"{_BEGIN}(?:{_SEPARATOR}{_WORD}){{0,8}}?{_SEPARATOR}(?:home\d*|users|people)"
    rf"{_SEPARATOR}{_USER}",
    re.IGNORECASE,
)
#: A user's home. After a colon, ``~Foo`` is a destructor unless a separator follows.
_TILDE = re.compile(
    r"""(?<![\w./\\~)\]>-])~[A-Za-z_][\w.-]*(?=[/\\])|(?<![\w./\\~)\]>:-])~[A-Za-z_][\w.-]*(?=["'\s,;]|$)"""
)
_FOLDERS = re.compile(
    rf"(?:{_BEGIN}|(?<![\w./\\~)\]>-])~(?=[/\\])){_SEPARATOR}(?:{_WORD}{_SEPARATOR})+"
    rf"|(?<![\w./\\~)\]>-])~{_SEPARATOR}"
)
#: Folders that precede the part within a package.
_PACKAGES = re.compile(
    r".*(?:site|dist)-packages/|.*/lib/python\d[\d.]*/|.*/python\d[\d.]*\.zip/"
    r"|.*/(?=(?:torch|torch_npu|torchvision|megatron|deepspeed|transformers)/)",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"(?<![\w.)\]>-])[/\\~]")
#: A slash that may begin an absolute path in JSON. For speed, the pattern begins with the slash.
_IN_JSON = re.compile(rb'/(?:(?<=[^\w./\\)\]>-]/)|(?<=\\[nrt"/]/)|(?<=\\/))')
#: Other signs of paths in JSON: homes, backslashes, and escapes of ASCII characters.
_SIGNS_IN_JSON = (b"~", b"\\\\", b"\\u00")


def package_part(path: str) -> str | None:
    """Return the part of a path within a package, with slashes; None for other paths."""
    match = _PACKAGES.match(path)
    return None if match is None else path[match.end() :]


@lru_cache(maxsize=1 << 12)
def shorten_paths(text: str) -> str:
    """Return a string without the folders of absolute paths and without user names."""
    if _IN_TEXT.search(text) is None:
        return text
    text = _TILDE.sub("~", _HOME.sub("~", text))
    return _FOLDERS.sub(lambda folders: package_part(folders[0].replace("\\", "/")) or "", text)


class VerbatimNumber(str):
    """A number as written in JSON, with all its digits."""

    __slots__ = ()


_decode = msgspec.json.Decoder(float_hook=VerbatimNumber).decode


def shorten_record(record: bytes) -> bytes:
    """Return the JSON of a record with short paths in all strings; numbers keep their digits."""
    if not any(sign in record for sign in _SIGNS_IN_JSON) and _IN_JSON.search(record) is None:
        return record
    encode: Callable[[Any], bytes] = msgspec.json.encode
    try:
        try:
            value = _decode(record)
        except msgspec.DecodeError:  # NaN, or half of a surrogate pair
            value, encode = json.loads(record), lambda value: json.dumps(value).encode()
        short = map_texts(value, shorten_paths)
        return record if short == value else encode(short)
    except (ValueError, RecursionError):
        return b"{}"


def map_texts(value: object, change: Callable[[str], str]) -> Any:
    """Return a JSON value with all its strings changed, including keys."""
    if isinstance(value, VerbatimNumber):
        return msgspec.Raw(value.encode())
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value
