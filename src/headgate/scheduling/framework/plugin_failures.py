"""Failures of plugins as log messages: exceptions and invalid results.

Failures are grouped by plugin, extension point and exception type, because the text may differ each time. The first
failure of a group is logged with its place in the plugin's code; later ones are logged once a minute with their number.
The conditions and Events of the pods show the failures too. The module does no I/O.
"""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Any, Final

from headgate.scheduling.framework.result_checks import error_with_type

_INTERVAL_S: Final = 60.0
_MAX_GROUPS: Final = 1000
_OTHER: Final = ("", "", "")


class _FailureGroup:
    """One kind of failure of one plugin at one extension point."""

    __slots__ = ("reported_s", "text", "unreported")

    def __init__(self) -> None:
        self.text = ""
        self.unreported = 0
        self.reported_s: float | None = None


class PluginFailures:
    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], _FailureGroup] = {}
        self._unreported: dict[tuple[str, str, str], None] = {}

    def failed(self, plugin: Any, method: str, error: BaseException, subject: str = "") -> None:
        """``plugin``: ``None`` if it is unknown. ``subject``: the object that the plugin was called for."""
        name = "of unknown name" if plugin is None else plugin.name
        key = (name, method, type(error).__name__)
        if key not in self._groups and len(self._groups) >= _MAX_GROUPS:
            key = _OTHER
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _FailureGroup()
        group.unreported += 1
        if key not in self._unreported:
            self._unreported[key] = None
            location = source_location(plugin, method, error)
            on = f" on {subject}" if subject else ""
            at = f" at {location}" if location else ""
            group.text = f"plugin {name} failed in {method}{on}: {error_with_type(error)}{at}"

    def messages(self, now_s: float) -> list[str]:
        """The messages that are due for the log."""
        found: list[str] = []
        for key in tuple(self._unreported):
            group = self._groups[key]
            if group.reported_s is not None and now_s - group.reported_s < _INTERVAL_S:
                continue
            more = f" ({group.unreported} such failures since the last message)" if group.reported_s is not None else ""
            found.append(group.text + more)
            group.reported_s, group.unreported = now_s, 0
            del self._unreported[key]
        return found


def source_location(plugin: Any, method: str, error: BaseException) -> str:
    """``file:line`` in the plugin's code: where it raised or, for an invalid result, where the method begins."""
    package = type(plugin).__module__.partition(".")[0]
    in_plugin, in_library = "", ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        location = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        if module == package:
            in_plugin = location
        elif module != "headgate":
            in_library = location
        trace = trace.tb_next
    if in_plugin or in_library:
        return in_plugin or in_library
    try:
        code = getattr(getattr(type(plugin), method, None), "__code__", None)
    except BaseException:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""
