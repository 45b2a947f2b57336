"""Pack the VS Code extension as dist/hta-widgets-VERSION.vsix, after `node js/vscode/build.mjs`.

A .vsix file is a zip archive with a manifest, a list of content types, and the extension.
"""

from __future__ import annotations

import json
import sys
import tomllib
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "js" / "vscode"
#: File names in the extension's folder, and their source paths.
FILES = {
    "README.md": SOURCE / "README.md",
    "CHANGELOG.md": SOURCE / "CHANGELOG.md",
    "LICENSE.txt": ROOT / "LICENSE",
    "dist/extension.js": SOURCE / "dist/extension.js",
    "dist/web.js": SOURCE / "dist/web.js",
    "media/webview.js": SOURCE / "dist/webview.js",
    "media/webview.css": SOURCE / "dist/webview.css",
    "media/icon.png": SOURCE / "media/icon.png",
    "media/light.png": SOURCE / "media/light.png",
    "media/dark.png": SOURCE / "media/dark.png",
}
TYPES = {
    "css": "text/css",
    "js": "application/javascript",
    "json": "application/json",
    "md": "text/markdown",
    "png": "image/png",
    "txt": "text/plain",
    "vsixmanifest": "text/xml",
}
ASSETS = {
    "Microsoft.VisualStudio.Code.Manifest": "package.json",
    "Microsoft.VisualStudio.Services.Content.Details": "README.md",
    "Microsoft.VisualStudio.Services.Content.Changelog": "CHANGELOG.md",
    "Microsoft.VisualStudio.Services.Content.License": "LICENSE.txt",
    "Microsoft.VisualStudio.Services.Icons.Default": "media/icon.png",
}
#: A fixed modification time, so that equal files give equal archives.
DATE = (1980, 1, 1, 0, 0, 0)


def manifest(own: dict) -> str:
    """Return the package manifest for marketplaces and editors."""
    properties = {
        "Engine": own["engines"]["vscode"],
        "ExtensionDependencies": "",
        "ExtensionPack": "",
        "ExtensionKind": ",".join(own["extensionKind"]),
        "LocalizedLanguages": "",
        "ExecutesCode": "true",
    }
    property_name = "Microsoft.VisualStudio.Code"
    lines = [
        f"<Property Id={quoteattr(f'{property_name}.{key}')} Value={quoteattr(value)} />"
        for key, value in properties.items()
    ]
    assets = [
        f'<Asset Type="{kind}" Path="extension/{name}" Addressable="true" />'
        for kind, name in ASSETS.items()
    ]
    identity = " ".join(
        f"{key}={quoteattr(own[name])}"
        for key, name in {"Id": "name", "Version": "version", "Publisher": "publisher"}.items()
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata>
<Identity Language="en-US" {identity} />
<DisplayName>{escape(own["displayName"])}</DisplayName>
<Description xml:space="preserve">{escape(own["description"])}</Description>
<Tags>{escape(",".join(own["keywords"]))}</Tags>
<Categories>{escape(",".join(own["categories"]))}</Categories>
<GalleryFlags>Public</GalleryFlags>
<Properties>{"".join(lines)}</Properties>
<License>extension/LICENSE.txt</License>
<Icon>extension/{own["icon"]}</Icon>
</Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code" /></Installation>
<Dependencies />
<Assets>{"".join(assets)}</Assets>
</PackageManifest>
"""


def content_types() -> str:
    """Return the content types of files in the archive, by suffix."""
    each = [f'<Default Extension=".{end}" ContentType="{kind}" />' for end, kind in TYPES.items()]
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f"{''.join(each)}</Types>\n"
    )


def pack(folder: Path) -> Path:
    """Write the .vsix file to a folder and return its path."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own = json.loads((SOURCE / "package.json").read_text("utf-8"))
    own["version"] = project["version"]
    parts = {
        "extension.vsixmanifest": manifest(own).encode(),
        "[Content_Types].xml": content_types().encode(),
        "extension/package.json": json.dumps(own, indent=2).encode(),
    } | {f"extension/{name}": path.read_bytes() for name, path in FILES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{own['name']}-{own['version']}.vsix"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    path = pack(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")
