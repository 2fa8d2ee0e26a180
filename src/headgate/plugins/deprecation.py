"""The warning that modules of ``headgate.plugins`` emit when a plugin imports one of their names."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any


def moved(old_module: str, old_name: str, module: ModuleType, name: str) -> Any:
    """The object that a former name stands for. A module's ``__getattr__`` calls this."""
    warnings.warn(
        f"{old_module}.{old_name} is deprecated and works for one release: import {name} from {module.__name__}",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(module, name)
