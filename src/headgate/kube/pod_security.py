"""The labels with which a namespace asks for Pod Security: which levels there are, and what is wrong with a label.

The levels themselves are not evaluated here or anywhere in Headgate: a namespace that asks for one is told so. Who
refuses wrong labels is ``apiserver/builtin/pod_security.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headgate.kube.errors import FieldErrors, invalid

PREFIX: Final = "pod-security.kubernetes.io/"
_MODES: Final = ("enforce", "audit", "warn")
_LEVELS: Final = ("privileged", "baseline", "restricted")
_VERSION: Final = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")


def label_problems(labels: Mapping[str, str]) -> FieldErrors:
    found: FieldErrors = []
    for mode in _MODES:
        level, version = f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"
        if level in labels and labels[level] not in _LEVELS:
            text = f"must be one of {', '.join(_LEVELS)}"
            found.append(invalid(f"metadata.labels[{level}]", labels[level], text))
        if version in labels and not _VERSION.fullmatch(labels[version]):
            text = 'must be "latest" or "v1.x"'
            found.append(invalid(f"metadata.labels[{version}]", labels[version], text))
    return found


def limits_of(labels: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """One warning for each label that asks for what is not done, when it is new or has changed."""
    asked = ((f"{PREFIX}{mode}", labels.get(f"{PREFIX}{mode}", "")) for mode in _MODES)
    return [
        f"metadata.labels[{label}]: pod security is not evaluated by the embedded API server: pods that violate"
        f" {level!r} are not refused, audited or warned of"
        for label, level in asked
        if level in _LEVELS[1:] and before.get(label) != level
    ]
