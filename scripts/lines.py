"""Count the files and lines in each layer of the package: `python scripts/lines.py`."""

import sys
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "hta_widgets"

files: Counter[str] = Counter()
lines: Counter[str] = Counter()
for path in PACKAGE.rglob("*.py"):
    parts = path.relative_to(PACKAGE).parts
    depth = 2 if parts[0] == "formats" else 1
    layer = "/".join(parts[:depth]) if len(parts) > 1 else "(ground)"
    files[layer] += 1
    lines[layer] += len(path.read_text("utf-8").splitlines())
for layer in sorted(files):
    sys.stdout.write(f"{layer:20} {files[layer]:4} {lines[layer]:7,}\n")
sys.stdout.write(f"{'total':20} {files.total():4} {lines.total():7,}\n")
