"""Failures of plugins as log messages: exceptions and invalid results.

Failures are grouped by plugin, extension point and exception type, because the text may differ each time. The first
failure of a group is logged with its place in the plugin's code; later ones are logged once a minute with their number.
The conditions and Events of the pods show the failures too. Pure.
"""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Any, Final

from headgate.scheduling.framework.result_checks import described

_EVERY_S: Final = 60.0
_MOST_KINDS: Final = 1000
_OTHER: Final = ("", "", "")


class _Kind:
    """One kind of failure of one plugin at one extension point."""

    __slots__ = ("said_s", "text", "unsaid")

    def __init__(self) -> None:
        self.text = ""
        self.unsaid = 0
        self.said_s: float | None = None


class PluginFailures:
    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], _Kind] = {}
        self._unsaid: dict[tuple[str, str, str], None] = {}

    def failed(self, plugin: Any, method: str, error: BaseException, about: str = "") -> None:
        """``plugin``: ``None`` if it is not known. ``about``: the object that the plugin was asked about."""
        name = "of unknown name" if plugin is None else plugin.name
        key = (name, method, type(error).__name__)
        if key not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            key = _OTHER
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind()
        kind.unsaid += 1
        if key not in self._unsaid:
            self._unsaid[key] = None
            where = place(plugin, method, error)
            on = f" on {about}" if about else ""
            at = f" at {where}" if where else ""
            kind.text = f"plugin {name} failed in {method}{on}: {described(error)}{at}"

    def messages(self, now_s: float) -> list[str]:
        """What is due for the log."""
        found: list[str] = []
        for key in tuple(self._unsaid):
            kind = self._kinds[key]
            if kind.said_s is not None and now_s - kind.said_s < _EVERY_S:
                continue
            more = f" ({kind.unsaid} such failures since the last message)" if kind.said_s is not None else ""
            found.append(kind.text + more)
            kind.said_s, kind.unsaid = now_s, 0
            del self._unsaid[key]
        return found


def place(plugin: Any, method: str, error: BaseException) -> str:
    """``file:line`` of the plugin's code: where it raised or, if its answer was wrong, where the method begins."""
    package = type(plugin).__module__.partition(".")[0]
    own, other = "", ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        here = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        if module == package:
            own = here
        elif module != "headgate":
            other = here
        trace = trace.tb_next
    if own or other:
        return own or other
    try:
        code = getattr(getattr(type(plugin), method, None), "__code__", None)
    except BaseException:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""
