"""HTA's logger and its settings from files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from hta_widgets.compat.utils.utils import get_value_from_dict

__all__ = ["HtaConfig", "logger"]

#: HTA's logger; other than HTA, this package sets up no handlers and prints nothing.
logger = logging.getLogger("hta")

_FILE = "trace_analyzer.json"


class HtaConfig:
    """Settings from JSON files, later ones over earlier ones.

    Nothing here reads them; they are for code of users that kept its own settings there.

    Parameters
    ----------
    config_file_path : str, optional
        Read last.
    load_default_paths : bool, default True
        Whether ``~/.hta/trace_analyzer.json`` and ``./trace_analyzer.json`` are read first.
    """

    def __init__(
        self,
        config_file_path: str | None = None,
        load_default_paths: bool | None = True,
    ) -> None:
        self.config_file_paths = HtaConfig.get_default_paths() if load_default_paths else []
        if config_file_path:
            self.config_file_paths.append(config_file_path)
        self.config: dict[str, Any] = {}
        for path in self.get_config_file_paths():
            self.config.update(json.loads(Path(path).read_text("utf-8")))

    @staticmethod
    def get_default_paths() -> list[str]:
        """Return where settings are looked for."""
        return [str(Path.home() / ".hta" / _FILE), str(Path.cwd() / _FILE)]

    def get_config_file_paths(self) -> list[str]:
        """Return the files that are there."""
        return [path for path in self.config_file_paths if Path(path).is_file()]

    def get_config(self, dot_path: str | None = None, default_value: Any = None) -> Any:
        """Return the setting under a path such as ``"a.b.c"``; all, without one."""
        if dot_path is None:
            return self.config
        return get_value_from_dict(self.config, dot_path, default_value)

    def show(self) -> None:
        """Print the settings."""
        print(json.dumps(self.config, indent=4, sort_keys=True))  # noqa: T201 - what it is for
