"""Reads the configuration file again while ``headgate run`` works, and applies what can be changed without a restart.

The file is compared by content every few seconds: a mounted ConfigMap is a symbolic link whose time stamps say nothing.
Fields that cannot be reloaded are named in one warning; an invalid file is reported, and the former values stay.
``flags.py`` lists the fields that are reloaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headgate.cli.configuration.config_options import OwnFile
from headgate.cli.configuration.files import read_own, referenced_files
from headgate.cli.configuration.flags import RELOADED, changed_fields
from headgate.cli.configuration.types import Configuration
from headgate.cli.options.input_files import read_input
from headgate.cli.wiring.plugins import InstalledPlugins

_log: Final = logging.getLogger(__name__)
_INTERVAL_S: Final = 5.0


class ConfigReloader:
    """``apply`` gets a configuration whose reloaded fields have changed."""

    def __init__(self, own: OwnFile, plugins: InstalledPlugins, apply: Callable[[Configuration], None]) -> None:
        self._file: Final = own.file
        self._plugins: Final = plugins
        self._apply: Final = apply
        self._running: Final = own.configuration
        """What this process started with: fields that need a restart are compared with it."""
        self._current = own.configuration
        self._contents = self._read()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            self.check()

    def check(self) -> None:
        """Reads the files, and acts if their content has changed."""
        contents = self._read()
        if contents == self._contents:
            return
        changed_files = [str(file) for file in contents if contents[file] != self._contents.get(file)]
        self._contents = contents
        text = contents[self._file]
        read = [text] if isinstance(text, str) else read_own(text, self._file, self._plugins)
        if isinstance(read, list):
            problems = "; ".join(each if isinstance(each, str) else each.at(self._file) for each in read)
            _log.error("the changed configuration is not used, the former one stays: %s", problems)
            return
        if not RELOADED.isdisjoint(changed_fields(self._current, read)):
            self._apply(read)
        self._current = read
        self._contents = self._read()  # it may name other files now
        self._warn_of_restart(read, [each for each in changed_files if each != str(self._file)])

    def _warn_of_restart(self, read: Configuration, other_files: list[str]) -> None:
        fields = [each for each in changed_fields(self._running, read) if each not in RELOADED]
        if fields or other_files:
            _log.warning("%s: a restart is needed for changes of %s", self._file, ", ".join((*fields, *other_files)))

    def _read(self) -> dict[Path, bytes | str]:
        files = (self._file, *referenced_files(self._current, self._file.parent).values())
        return {each: read_input(each) for each in files}
