"""Kernel settings that belong to a namespace: a pod that shares the host's namespace must not change them."""

from __future__ import annotations

from typing import Any, Final

_IPC_NAMES: Final = frozenset(
    {"kernel.sem", "kernel.shm", "kernel.msg"}
    | {f"kernel.shm{each}" for each in ("all", "max", "mni", "_rmid_forced")}
    | {f"kernel.msg{each}" for each in ("max", "mnb", "mni")}
)


def shares_host_namespace(name: str, spec: dict[str, Any]) -> str:
    """The pod field (``hostNetwork``, ``hostIPC``) that makes this sysctl the host's own; empty if none does."""
    name = _normalize(name).partition("*")[0]
    if name.startswith("net.") and spec.get("hostNetwork"):
        return "hostNetwork"
    if (name in _IPC_NAMES or name.startswith("fs.mqueue.")) and spec.get("hostIPC"):
        return "hostIPC"
    return ""


def _normalize(name: str) -> str:
    """Slashes may separate the parts instead of dots; then dots stand for slashes."""
    first = next((char for char in name if char in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))
