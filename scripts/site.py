"""Generate pages of the documentation site: a MkDocs hook for `make docs`.

- `gallery/*.html`: saved pages. The code blocks of docs/gallery.md run from top to bottom; pages
  saved by a block are shown in frames below it.
- `tutorials/*.md`: executed notebooks, with pictures of their views.
- `reference/*.md`: docstrings of all public names, by module.
- `changelog.md`: the changelog.
- `assets/iframe-worker.js`: a script from the npm package of this name, needed by the search.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

from hta_widgets.cli import parser
from hta_widgets.demo.training_step import KINDS

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO / "scripts"))
sys.path.insert(0, str(REPO / "tests"))
from run_notebook import run  # noqa: E402 - of this folder
from support.nsight_export import write_export  # noqa: E402 - of the tests

NOTEBOOKS = (
    *("quickstart", "dashboard", "many_ranks", "diff", "analyses", "efficiency"),
    *("byteps", "mpi"),
)
#: Runs workers in a hidden frame, because browsers block workers in pages opened from disk.
SHIM = REPO / "node_modules/iframe-worker/shim/index.js"
#: Modules with a page in the reference, which lists all of their public names.
MODULES = ("analysis", "charts", "diff", "devices", "taxonomy", "cache")
#: Links to files with another address on the site, and links to files outside the site.
_MOVED = {"../README.md": "index.md", "../CHANGELOG.md": "changelog.md"}
_NOTEBOOK_LINK = re.compile(r"\]\(\.\./notebooks/(\w+)\.ipynb\)")
_CHECKOUT_LINK = re.compile(r"\[([^]]+)\]\(\.\./[^)]+\)")
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SAVED_PAGE = re.compile(r"\"([\w-]+\.html)\"")
#: A gallery section for a kind of demo job.
_KIND = """### {title}

```sh
hta-widgets demo {name} --kind {kind}{options}
```

```python
hw.Dashboard(hw.load({files})).save_html("{name}.html")
```
"""
_TITLES = {"moe": "Mixture of experts", "graph": "Graph replays"}
#: Arguments of `hw.load` for kinds with more than one job in their folder.
_FILES = {"graph": '"graph/replay", capture="graph/capture"'}
#: A link from a notebook to a page in docs/, the parent folder of the tutorials.
_PAGE_LINK = re.compile(r"\[docs/([\w-]+)\.md\]\(\.\./docs/\1\.md\)")
#: A link with the name of a page as its text.
_NAMED_LINK = re.compile(r"\[([\w-]+)\.md\](?=\(\1\.md)")
_LIVE_LINK = re.compile(r"^\[([^]]+)\]\((gallery/[\w-]+\.html)\)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    work = Path(tempfile.mkdtemp(prefix="site-"))
    gallery = with_kinds((REPO / "docs/gallery.md").read_text("utf-8"))
    for path in write_gallery(work / "gallery", gallery):
        files.append(File.generated(config, f"gallery/{path.name}", abs_src_path=str(path)))
    for name in NOTEBOOKS:
        for uri, content in tutorial(name, work).items():
            files.append(File.generated(config, f"tutorials/{uri}", content=content))
    for name in ("hta_widgets", *MODULES):
        text = reference(name)
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    changelog = (REPO / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    files.append(File.generated(config, "assets/iframe-worker.js", abs_src_path=str(SHIM)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Show saved pages in frames, and change links to addresses on the site."""
    if page.parent is None:  # a tab that has a single page needs no navigation
        page.meta["hide"] = ["navigation"]
    if page.is_homepage:  # from 1100 px on, charts are next to the timeline
        page.meta["hide"].append("toc")
    markdown = _LIVE_LINK.sub(lambda match: frame(match[2], match[1]), markdown)
    if page.file.src_uri == "gallery.md":
        markdown = _BLOCK.sub(with_frames, with_kinds(markdown))
    for old, new in _MOVED.items():
        markdown = markdown.replace(f"]({old})", f"]({new})")
    markdown = _NAMED_LINK.sub(lambda match: f"[{title_of(match[1])}]", markdown)
    markdown = _NOTEBOOK_LINK.sub(r"](tutorials/\1.md)", markdown)
    if page.file.src_uri.startswith("tutorials/"):
        return _PAGE_LINK.sub(lambda match: f"[{title_of(match[1])}](../{match[1]}.md)", markdown)
    return _CHECKOUT_LINK.sub(r"\1", markdown)


def title_of(name: str) -> str:
    """Return the title of a page in docs/."""
    return (REPO / f"docs/{name}.md").read_text("utf-8").partition("\n")[0].removeprefix("# ")


def with_kinds(text: str) -> str:
    """Return the gallery text with a section for each kind of demo job."""
    commands = next(action for action in parser()._actions if action.dest == "command")  # noqa: SLF001
    demo = commands.choices["demo"]
    demo.add_arguments(demo)
    kinds = next(action.choices for action in demo._actions if action.dest == "kind")  # noqa: SLF001
    sections = [
        _KIND.format(
            title=_TITLES.get(kind, kind.replace("_", " ").capitalize()),
            name=(name := kind.replace("_", "-")),
            kind=kind,
            options=" --ranks 4 --steps 3 --healthy" if kind in KINDS else "",
            files=_FILES.get(kind, f'"{name}"'),
        )
        for kind in kinds
        if kind != "training"
    ]
    return text.replace("<!-- kinds -->", "\n".join(sections))


def with_frames(match: re.Match[str]) -> str:
    """Return a code block, followed by frames with the pages that it saves."""
    pages = _SAVED_PAGE.findall(match[2])
    return "\n\n".join((match[0], *(frame(f"gallery/{name}", "") for name in pages)))


def frame(address: str, text: str) -> str:
    """Return a frame with a saved page, and a link to the page."""
    title = text or address
    view = f'<iframe class="live" data-src="{address}" title="{title}"></iframe>'
    return f"{text}\n\n{view}\n\n[Open this page by itself]({address})"


def write_gallery(folder: Path, text: str) -> list[Path]:
    """Run the code blocks of a page in a folder, and return the pages that they save."""
    folder.mkdir(parents=True)
    before = Path.cwd()
    names: dict[str, Any] = {}
    write_export(folder / "nsight.sqlite", ranks=2, steps=5, late_ns=2_000_000)
    os.chdir(folder)
    try:
        for language, code in _BLOCK.findall(text):
            if language == "python":
                exec(compile(code, "docs/gallery.md", "exec"), names)  # noqa: S102 - our own page
                continue
            for line in code.splitlines():
                _, *arguments = shlex.split(line)
                subprocess.run([sys.executable, "-m", "hta_widgets", *arguments], check=True)
    finally:
        os.chdir(before)
    return sorted(folder.glob("*.html"))


def tutorial(name: str, work: Path) -> dict[str, str | bytes]:
    """Execute a notebook and return its page and pictures, by address below `tutorials`."""
    folder = work / name
    folder.mkdir(parents=True)
    notebook = run(REPO / f"notebooks/{name}.ipynb", folder=folder)
    body, resources = MarkdownExporter().from_notebook_node(notebook)
    pictures = {f"{name}/{file}": data for file, data in resources["outputs"].items()}
    for file in resources["outputs"]:
        body = body.replace(f"({file})", f"({name}/{file})")
    return {f"{name}.md": body, **pictures}


def reference(name: str) -> str:
    """Return a page with the docstring of each public name in a module."""
    module = importlib.import_module("hta_widgets")
    if name != "hta_widgets":
        module = getattr(module, name)
    title = "hta_widgets" if name == "hta_widgets" else f"hta_widgets.{name}"
    summary = (module.__doc__ or "").strip()
    parts = [f"# {title}", summary]
    for public in module.__all__:
        value = getattr(module, public)
        if hasattr(value, "__qualname__"):
            parts.append(f"::: {value.__module__}.{value.__qualname__}")
        elif not isinstance(value, ModuleType):  # modules have their own pages
            parts.append(f"### {public}\n\n`{type(value).__name__}`")
    return "\n\n".join(parts)
