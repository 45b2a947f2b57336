"""Add the project's public address to the metadata of a package.

The environment variable `PROJECT_URL` states the address, for example
`https://host/team/hta_widgets`; the release workflow sets it to its own repository. The package
then names its pages, and the links in its README lead to the released version at that address.
Without the variable, the package states no address, and its README is the one in the repository.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class AddressHook(MetadataHookInterface):
    """Sets the metadata fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both fields to `metadata`, the table `project` of `pyproject.toml`."""
        address = os.environ.get("PROJECT_URL", "").rstrip("/")
        readme = Path(self.root, "README.md").read_text("utf-8")
        metadata["urls"] = {}
        if address:
            files = f"{address}/blob/v{metadata['version']}"
            metadata["urls"] = {
                "Source": address,
                "Documentation": f"{files}/docs/index.md",
                "Changelog": f"{files}/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
            images = files.replace("/blob/", "/raw/")
            readme = re.sub(r"(!\[[^]]*\]\()(?!\w+:)", rf"\g<1>{images}/", readme)
            readme = re.sub(r"(?<!!)(\[[^]]*\]\()(?!\w+:|#)", rf"\g<1>{files}/", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
