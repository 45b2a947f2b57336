"""Generate files from the types in `live/operations.py` and `tiles/replies.py`.

The output is `js/src/protocol.d.ts` and the column "request" in docs/protocol-requests.md. With
`--check`, nothing is written, and the exit code is 1 if a file is outdated.
"""

import inspect
import re
import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from hta_widgets.live.operations import OPERATIONS, Part
from hta_widgets.tiles import replies

ROOT = Path(__file__).resolve().parents[1]
TYPES, DOCS = ROOT / "js/src/protocol.d.ts", ROOT / "docs/protocol-requests.md"
LINE_LENGTH = 100
TIMED = "export type Timed = {\n  within_ms?: number;\n};"
PLAIN = {
    int: "number",
    float: "number",
    str: "string",
    bool: "boolean",
    NoneType: "null",
    Any: "unknown",
}


def typescript(kind: Any) -> str:
    """Convert a Python type to TypeScript."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return next((text for text in arguments if isinstance(text, str)), typescript(arguments[0]))
    if origin is NotRequired:
        return typescript(arguments[0])
    if origin is Literal:
        return " | ".join(
            f'"{value}"' if isinstance(value, str) else str(value) for value in arguments
        )
    if origin in {Union, UnionType}:
        return " | ".join(map(typescript, arguments))
    if origin is list:
        items = typescript(arguments[0])
        return f"readonly ({items})[]" if items.startswith("readonly ") else f"readonly {items}[]"
    if origin is dict:
        key, value = map(typescript, arguments)
        return f"Record<{key}, {value}>" if key == "string" else f"Partial<Record<{key}, {value}>>"
    if kind is Part or kind.__module__ == replies.__name__:
        return str(kind.__name__)
    return PLAIN.get(kind, "Record<string, unknown>")


def fields(kind: type) -> list[msgspec.structs.FieldInfo]:
    """Return the fields of a request, required ones first, without the common `within_ms`."""
    ordered = sorted(msgspec.structs.fields(kind), key=lambda field: not field.required)
    return [field for field in ordered if field.encode_name != "within_ms"]


def in_page(field: msgspec.structs.FieldInfo) -> str:
    """Return the TypeScript type of a field. Selections have their own type."""
    if field.encode_name == "selection":
        return "SelectionJson | null"
    return typescript(field.type)


def body(kind: type, indent: str = "") -> list[str]:
    """Return the lines of a request's fields in braces."""
    lines = [
        f"{indent}  {field.encode_name}{'' if field.required else '?'}: {in_page(field)};"
        for field in fields(kind)
    ]
    return ["{", *lines, f"{indent}}}"]


def types() -> str:
    """Return the TypeScript declarations of all requests and replies."""
    lines = ["// Written by scripts/protocol.py from operations.py and replies.py.", ""]
    lines += ['import type { Kind, PanelFrame, SelectionJson } from "./protocol/values";', ""]
    lines += [f"/** {Part.__doc__} */", f"export interface Part {chr(10).join(body(Part))}", ""]
    lines += ["/** With `within_ms`, the answer may be pending. */", TIMED, ""]
    lines += ["/** Requests by operation. */", "export interface Requests {"]
    for name, kind in OPERATIONS.items():
        form = "Timed & " + "\n".join(body(kind, "  ")) if fields(kind) else "Timed"
        lines += [f"  /** {kind.__doc__} */", f"  {name}: {form};"]
    lines += ["}", *filter(None, map(reply_type, vars(replies).values())), ""]
    lines += ["/** Replies by operation. */", "export interface Replies {"]
    lines += [f"  {name}: {typescript(kind)};" for name, kind in replies.REPLIES.items()]
    return "\n".join([*lines, "}", ""])


def reply_type(kind: Any) -> str:
    """Return the TypeScript declaration of a reply type as an alias that fits any record."""
    if not is_typeddict(kind):
        return ""
    doc = inspect.cleandoc(kind.__doc__).replace("``", "`").replace("None", "null")
    head = "\n".join(["/**", *(f" * {line}".rstrip() for line in doc.split("\n")), " */"])
    lines = [
        field_text(f"{name}{'?' * (get_origin(hint) is NotRequired)}", typescript(hint))
        for name, hint in get_type_hints(kind, include_extras=True).items()
    ]
    if "\n" not in doc:
        head = f"/** {doc} */"
    return "\n".join(["", head, f"export type {kind.__name__} = {{", *lines, "};"])


def field_text(name: str, kind: str) -> str:
    """Return the declaration of a field, with line breaks as set by prettier."""
    line = f"  {name}: {kind};"
    if len(line) <= LINE_LENGTH:
        return line
    return f"  {name}:" + "".join(f"\n    | {part}" for part in kind.split(" | ")) + ";"


def request_cell(kind: type) -> str:
    """Return the fields of a request as a table cell of docs/protocol-requests.md."""
    required, optional = [], []
    for field in fields(kind):
        text = f"{field.encode_name}: {typescript(field.type)}".replace("|", "\\|")
        (required if field.required else optional).append(text)
    parts = [f"`{', '.join(required)}`"] if required else []
    parts += [f"optional `{', '.join(optional)}`"] if optional else []
    return "; ".join(parts) or "nothing"


def docs() -> str:
    """Return docs/protocol-requests.md with the current requests."""
    text = DOCS.read_text("utf-8")
    for name, kind in OPERATIONS.items():
        row = re.compile(rf"^\| `{name}` \| (?:[^|\\]|\\.)* \|", re.MULTILINE)
        if not row.search(text):
            raise SystemExit(f"{DOCS.name} has no row for the operation {name}")
        cell = f"| `{name}` | {request_cell(kind)} |"
        text = row.sub(lambda _, cell=cell: cell, text)
    return text


def main() -> int:
    """Write or check both files."""
    texts = {TYPES: types(), DOCS: docs()}
    if "--check" not in sys.argv[1:]:
        for path, text in texts.items():
            path.write_text(text, "utf-8")
        return 0
    stale = [path for path, text in texts.items() if path.read_text("utf-8") != text]
    for path in stale:
        sys.stderr.write(f"{path.relative_to(ROOT)}: run `python scripts/protocol.py`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
