"""The Python interpreters of this machine that Headgate supports: one for each minor version."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

OLDEST = 11
_NEWEST = 30
_VERSION = "import sys; print(sys.implementation.name, *sys.version_info[:2])"


def supported_pythons() -> dict[str, Path]:
    """By version, such as ``3.12``. On the PATH, or among the versions that pyenv has installed."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, Path] = {}
    for minor in range(OLDEST, _NEWEST):
        name = f"python3.{minor}"
        installed = sorted(folder.glob(f"3.{minor}.*/bin/{name}"))
        for each in (*map(str, installed), shutil.which(name)):
            if each is not None and _is_version(each, minor):
                found.setdefault(f"3.{minor}", Path(each))
    return found


def _is_version(python: str, minor: int) -> bool:
    """A name on the PATH may be a script of a version manager that has no such version."""
    run = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, timeout=60, check=False)
    return run.stdout.split() == ["cpython", "3", str(minor)]
