"""Texts that the cells of several kinds share: labels, selectors, containers, shortened lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.apiserver.printers.printer import NONE, Object, part
from headgate.kube.labels import from_label_selector


def labels_text(labels: Mapping[str, str] | None) -> str:
    """``a=b,c=d`` in the order of the keys."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector as a query; ``<none>`` if it is empty or not set."""
    if selector is None:
        return NONE
    return str(from_label_selector(selector)) or NONE


def container_cells(pod_spec: Object) -> list[str]:
    """Names and images of the containers, one cell each."""
    containers = pod_spec.get("containers") or []
    return [",".join(each.get(field) or "" for each in containers) for field in ("name", "image")]


def template_spec(obj: Object) -> Object:
    return part(obj, "spec", "template", "spec")


def shortened(entries: Sequence[str], shown: int, separator: str = ",") -> str:
    """The first entries, and the number of further ones."""
    text = separator.join(entries[:shown])
    return f"{text} + {len(entries) - shown} more..." if len(entries) > shown else text


def ratio(done: int, desired: int) -> str:
    return f"{done}/{desired}"


def is_true(conditions: Sequence[Object] | None, type_: str) -> bool:
    """Whether the first condition of a type is true."""
    for each in conditions or ():
        if each.get("type") == type_:
            return bool(each.get("status") == "True")
    return False
