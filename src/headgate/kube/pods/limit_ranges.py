"""The defaults of LimitRanges for containers without requests or limits.

The API server's LimitRanger applies them to pods (``apiserver/admission_plugins/limit_ranger.py``); quota applies them
to the templates of jobs, whose pods do not exist yet (``quota/api/pod_defaults.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Object = dict[str, Any]
ContainerDefaults = Mapping[str, Mapping[str, Any]]
"""Default ``requests`` and ``limits``, by resource."""

# The field of a container, the field of the LimitRange with its default, and its name in LimitRanger's annotation.
_FILLED: Final = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))


def container_defaults(limits: Iterable[Mapping[str, Any]]) -> ContainerDefaults:
    """``limits``: ``spec.limits`` of one LimitRange. Of several limits of one resource the last applies."""
    listed = [limit for limit in limits if limit.get("type") == "Container"]
    found: dict[str, dict[str, Any]] = {}
    for field, source, _ in _FILLED:
        found[field] = {name: value for limit in listed for name, value in (limit.get(source) or {}).items()}
    return found


def fill_container(resources: Object, defaults: ContainerDefaults) -> Iterator[str]:
    """Adds missing amounts to ``resources``; yields what was added, with the text of LimitRanger's annotation."""
    for field, _, word in _FILLED:
        own = resources.get(field) or {}
        missing = sorted(name for name in defaults[field] if name not in own)
        if missing:
            resources[field] = {**own, **{name: defaults[field][name] for name in missing}}
            yield f"{', '.join(missing)} {word}"
