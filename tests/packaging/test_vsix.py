"""The VS Code extension: the .vsix contains what editors and marketplaces read, no more."""

import json
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile

import pytest

import hta_widgets as hw

MANIFEST = "{http://schemas.microsoft.com/developer/vsx-schema/2011}"
TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
NAMES = {
    "[Content_Types].xml",
    "extension.vsixmanifest",
    "extension/CHANGELOG.md",
    "extension/LICENSE.txt",
    "extension/README.md",
    "extension/dist/extension.js",
    "extension/dist/web.js",
    "extension/media/dark.png",
    "extension/media/icon.png",
    "extension/media/light.png",
    "extension/media/webview.css",
    "extension/media/webview.js",
    "extension/package.json",
}


@pytest.fixture(scope="module")
def vsix(tmp_path_factory, repo):
    if shutil.which("node") is None or not (repo / "node_modules/esbuild").exists():
        pytest.skip("no Node packages (`make setup` installs them)")
    folder = tmp_path_factory.mktemp("vsix")
    for command in (["node", "js/vscode/build.mjs"], [sys.executable, "scripts/vsix.py", folder]):
        subprocess.run(command, cwd=repo, check=True, capture_output=True)
    with zipfile.ZipFile(folder / f"hta-widgets-{hw.__version__}.vsix") as archive:
        yield archive


def test_it_holds_these_files_and_no_others(vsix):
    assert sorted(vsix.namelist()) == sorted(NAMES)
    assert sum(entry.compress_size for entry in vsix.infolist()) < 2_000_000


def test_what_its_manifests_name_is_there(vsix):
    own = json.loads(vsix.read("extension/package.json"))
    assert own["version"] == hw.__version__
    for name in (own["main"], own["browser"], own["icon"]):
        assert f"extension/{name.removeprefix('./')}" in NAMES
    root = ET.fromstring(vsix.read("extension.vsixmanifest"))
    identity = root.find(f"{MANIFEST}Metadata/{MANIFEST}Identity")
    assert identity.attrib == {
        "Language": "en-US",
        "Id": own["name"],
        "Version": own["version"],
        "Publisher": own["publisher"],
    }
    paths = {element.attrib["Path"] for element in root.iter(f"{MANIFEST}Asset")}
    assert {"extension/package.json", "extension/README.md"} < paths <= NAMES
    types = ET.fromstring(vsix.read("[Content_Types].xml")).iter(f"{TYPES}Default")
    endings = {element.attrib["Extension"] for element in types}
    assert {f".{name.rsplit('.', 1)[1]}" for name in NAMES} - {".xml"} <= endings


def test_pictures_of_the_readme_and_the_size_of_the_icon(vsix):
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", vsix.read("extension/README.md").decode())
    assert len(pictures) == 2
    assert {f"extension/{name}" for name in pictures} <= NAMES
    assert struct.unpack(">2I", vsix.read("extension/media/icon.png")[16:24]) == (128, 128)


def test_its_scripts_contain_no_python_side_and_no_address(vsix):
    """Widget modules come from the installed package, and nothing comes from the network."""
    for name in ("dist/extension.js", "dist/web.js", "media/webview.js"):
        text = vsix.read(f"extension/{name}").decode()
        assert len(text) < 60_000
        addresses = set(re.findall(r"https?://[\w./-]+", text))
        assert {
            address for address in addresses if not address.startswith("http://www.w3.org/")
        } == set(), name
