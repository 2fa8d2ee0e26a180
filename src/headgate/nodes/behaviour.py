"""Annotations that control a hollow kubelet: how long a pod runs, how it ends, how a node fails.

An invalid annotation counts as absent, so that a typing error does not stop a simulated cluster;
``annotation_problems`` returns the messages to log. ``annotations.py`` lists all annotations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.integers import read_natural
from headgate.kube.timestamps import parse_duration
from headgate.nodes.annotations import HOLLOW, KWOK_COMPLETE, KWOK_NODE, PREFIX, SUPPORTED_ANNOTATIONS

Object = dict[str, Any]

_NEVER: Final = "never"
_SHOWN_CHARACTERS: Final = 80

HELP: Final = {
    row.key.removeprefix(PREFIX): f"{row.on}: {row.what}"
    for row in SUPPORTED_ANNOTATIONS
    if row.kind == "annotation" and row.key.startswith(PREFIX)
}
"""Headgate's annotations without the prefix; the table is in ``annotations.py``."""


class PodBehaviour(msgspec.Struct, frozen=True):
    start_s: float | None = None
    run_s: float | None = None
    """Infinite: until the pod is deleted."""
    stop_s: float | None = None
    exit_code: int = 0


class NodeBehaviour(msgspec.Struct, frozen=True):
    boot_s: float | None = None
    boot_never: bool = False
    not_ready: bool = False
    not_ready_every_s: float | None = None
    not_ready_for_s: float | None = None
    silent_s: float | None = None
    killed_s: float | None = None
    stop_s: float | None = None
    late_s: float | None = None
    late_resources: Mapping[str, str] = {}


_DEFAULT_POD_BEHAVIOUR: Final = PodBehaviour()
_DEFAULT_NODE_BEHAVIOUR: Final = NodeBehaviour()


def is_hollow(node: Object) -> bool:
    """Whether Headgate simulates the node: it has KWOK's annotation, which kwok providers set, too, or our label."""
    metadata = node["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    return annotations.get(KWOK_NODE) == "fake" or labels.get(HOLLOW) == "true"


def pod_behaviour(metadata: Object) -> PodBehaviour:
    annotations = metadata.get("annotations")
    if not annotations:
        return _DEFAULT_POD_BEHAVIOUR
    run_s = _run_s(annotations.get(f"{PREFIX}run-for"))
    return PodBehaviour(
        start_s=seconds(annotations.get(f"{PREFIX}start-after")),
        run_s=run_s if run_s is not None else seconds(annotations.get(KWOK_COMPLETE)),
        stop_s=seconds(annotations.get(f"{PREFIX}stop-after")),
        exit_code=_exit_code(annotations.get(f"{PREFIX}exit-code", "0")) or 0,
    )


def node_behaviour(metadata: Object) -> NodeBehaviour:
    annotations = metadata.get("annotations")
    if not annotations:
        return _DEFAULT_NODE_BEHAVIOUR
    requested = {name: seconds(annotations.get(f"{PREFIX}{name}")) for name in HELP}
    return NodeBehaviour(
        boot_s=requested["boot-after"],
        boot_never=annotations.get(f"{PREFIX}boot-never") == "true",
        not_ready=annotations.get(f"{PREFIX}not-ready") == "true",
        not_ready_every_s=requested["not-ready-every"],
        not_ready_for_s=requested["not-ready-for"],
        silent_s=requested["silent-after"],
        killed_s=requested["killed-after"],
        stop_s=requested["stop-after"],
        late_s=requested["late-resources-after"],
        late_resources=_resources(annotations.get(f"{PREFIX}late-resources", "")) or {},
    )


def annotation_problems(metadata: Object) -> list[str]:
    """One line for each Headgate annotation that cannot be parsed."""
    found: list[str] = []
    for key, value in (metadata.get("annotations") or {}).items():
        name = key.removeprefix(PREFIX)
        if key != name and name in HELP and not _readable(name, value):
            shown = value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…"
            found.append(f"annotation {key}={shown!r} cannot be read and is ignored ({HELP[name]})")
    return found


def seconds(text: str | None) -> float | None:
    """A Go duration, or a plain number of seconds; ``None`` for any other text and for a negative duration."""
    if text is None:
        return None
    nanos = parse_duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text)
    return None if isinstance(nanos, str) or nanos < 0 else nanos / 1e9


def _run_s(text: str | None) -> float | None:
    return math.inf if text == _NEVER else seconds(text)


def _readable(name: str, value: str) -> bool:
    if name == "run-for":
        return _run_s(value) is not None
    if name == "exit-code":
        return _exit_code(value) is not None
    if name in ("boot-never", "not-ready"):
        return value in ("true", "false")
    if name == "late-resources":
        return _resources(value) is not None
    return seconds(value) is not None


def _exit_code(text: str) -> int | None:
    code = read_natural(text)
    return code if code is not None and code <= 255 else None


def _resources(text: str) -> dict[str, str] | None:
    resources: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, _, amount = part.strip().partition("=")
        if not name or not amount or isinstance(quantity.parse(amount), str):
            return None
        resources[name] = amount
    return resources
