"""Machine-checkable rules for this repository."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LONGEST = 700

#: Phrases that usually hide the subject of a sentence.
ODD_PHRASES = re.compile(
    r"\b[Oo]f (which|whom)\b|\b(whoever|nobody|anew|alike)\b|\b(is|are|was|were) no [a-z]"
    r"|\b(told|tells|says|hears)\b|\b[Oo]ne (row|line|call|file|dot) a [a-z]+\b|\bthe like\b"
)
#: Number of lines with such a phrase. The number may only fall.
ODD_LINES = 12

# Each machine configures its package hosts. They are assembled so that this file omits them.
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("download", "pytorch", "org"),
        # Pages work offline, so they do not refer to CDN copies of libraries either.
        ("jsdelivr", "net"),
        ("unpkg", "com"),
        ("cdnjs", "cloudflare", "com"),
        ("cdn", "bokeh", "org"),
        ("esm", "sh"),
    )
]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """List the files that git tracks or would add."""
    if not (REPO / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a checkout, or no git to ask")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True).stdout
    return [path for name in listing.splitlines() if (path := REPO / name).is_file()]


def test_no_address_of_a_package_registry(files):
    result = []
    for path in files:
        text = path.read_bytes().decode("utf-8", "replace").lower()
        result += [f"{path.relative_to(REPO)}: {host}" for host in HOSTS if host in text]
    assert result == []


def test_modules_stay_readable(files):
    sources, generated = {".ts", ".css"}, "js/src/protocol.d.ts"
    long = {}
    for path in files:
        name = path.relative_to(REPO).as_posix()
        if name.startswith("js/src/") and path.suffix in sources and name != generated:
            lines = len(path.read_text("utf-8").splitlines())
            if lines > LONGEST:
                long[name] = lines
    assert long == {}


def test_nothing_built_is_tracked(files):
    folders = {"node_modules", "dist", "build", "static", "labextension", "screenshots"}
    built = [path for path in files if folders & set(path.relative_to(REPO).parts[:-1])]
    assert built == []


def test_readme_is_short_and_names_both_commands():
    text = (REPO / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text
    assert len(text.splitlines()) <= 120


def test_no_page_of_the_docs_is_long():
    """Split pages of more than 200 lines by the question they answer."""
    pages = (REPO / "docs").glob("*.md")
    lines = {page.name: len(page.read_text("utf-8").splitlines()) for page in pages}
    assert {name: number for name, number in lines.items() if number > 200} == {}


def test_links_of_pages_lead_to_files_and_headings():
    pages = [REPO / "README.md", REPO / "CONTRIBUTING.md", *(REPO / "docs").glob("*.md")]
    broken, number = [], 0
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in path or path.startswith("gallery/"):  # made by `make docs`
                continue
            number += 1
            file = page.parent / path if path else page
            if not file.exists() or (anchor and anchor not in anchors_of(file)):
                broken.append(f"{page.name}: {target}")
    assert number > 150
    assert broken == []


def anchors_of(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).strip().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("name", ["architecture.md", "changing.md", "formats.md"])
def test_files_that_the_docs_name_exist(name, files):
    text = (REPO / "docs" / name).read_text("utf-8")
    # Paths with a placeholder, such as ``charts/definitions/NAME.json``, are skipped.
    named = set(re.findall(r"`((?!\S*[A-Z]{4})[\w./-]+\.(?:py|tsx?|json|md))`", text))
    assert named
    expected = [f"/{path.relative_to(REPO)}" for path in files]
    assert [
        item for item in sorted(named) if not any(path.endswith(f"/{item}") for path in expected)
    ] == []


def test_the_version_stands_in_one_place():
    assert "version" not in json.loads((REPO / "package.json").read_text("utf-8"))
    for path in (REPO / "hta_widgets").rglob("*.py"):
        assert '__version__ = "' not in path.read_text("utf-8"), path


def test_odd_phrases_may_only_become_fewer(files):
    """Lower `ODD_LINES` when a change removes some of them."""
    lines = 0
    for path in files:
        folder = path.relative_to(REPO).parts[0]
        if folder in {"hta_widgets", "docs", "tests"} and path.suffix in {".py", ".md"}:
            lines += sum(
                bool(ODD_PHRASES.search(line)) for line in path.read_text("utf-8").splitlines()
            )
    assert lines <= ODD_LINES


def test_the_site_lists_every_page_of_the_docs(repo):
    listed = re.findall(r"[\w-]+\.md", (repo / "mkdocs.yml").read_text("utf-8"))
    assert [path.name for path in (repo / "docs").glob("*.md") if path.name not in listed] == []
