"""Metadata for PyPI, conda, CI and the changelog agree with pyproject.toml."""

import re
import tomllib

import pytest


@pytest.fixture(scope="module")
def settings(repo):
    return tomllib.loads((repo / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def recipe(repo):
    return (repo / "packaging/conda-recipe.yaml").read_text("utf-8")


def test_the_recipe_has_the_same_requirements(settings, recipe):
    runs = re.findall(r"^    - (\S+) (\S+)$", recipe.partition("  run:")[2], re.MULTILINE)
    project = settings["project"]
    expected = {("python", project["requires-python"])}
    expected |= {re.fullmatch(r"(\w+)(.*)", name).groups() for name in project["dependencies"]}
    assert set(runs) == expected


def test_versions_agree(settings, recipe, repo):
    citation = (repo / "CITATION.cff").read_text("utf-8")
    versions = re.findall(r"^ *version: \"?([\d.]+)\"?$", recipe + citation, re.MULTILINE)
    assert versions == [settings["project"]["version"]] * 2


def test_ci_tries_every_python_on_every_system(settings, repo):
    text = (repo / ".github/workflows/test.yml").read_text("utf-8")
    listed = re.search(r"python: \[(.*)\]", text)[1].replace('"', "").split(", ")
    heads = "Programming Language :: Python :: 3."
    names = settings["project"]["classifiers"]
    assert listed == [name.rpartition(" ")[2] for name in names if name.startswith(heads)]
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in text


def test_fragments_of_the_changelog_have_a_kind(settings, repo):
    kinds = set(settings["tool"]["towncrier"]["fragment"])
    files = {path.name for path in (repo / "changes").iterdir()} - {"README.md"}
    assert [name for name in files if name.split(".")[1:] not in ([k, "md"] for k in kinds)] == []
