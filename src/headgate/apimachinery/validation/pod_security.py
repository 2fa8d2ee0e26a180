"""Validation of the Pod Security labels of a namespace: the levels, and invalid labels.

Headgate does not evaluate the levels: a namespace that sets one gets a warning.
``apiserver/admission_plugins/pod_security.py`` rejects invalid labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headgate.kube.field_errors import FieldErrors, invalid

PREFIX: Final = "pod-security.kubernetes.io/"
_MODES: Final = ("enforce", "audit", "warn")
_LEVELS: Final = ("privileged", "baseline", "restricted")
_VERSION: Final = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")


def validate_pod_security_labels(labels: Mapping[str, str]) -> FieldErrors:
    errors: FieldErrors = []
    for mode in _MODES:
        level, version = f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"
        if level in labels and labels[level] not in _LEVELS:
            text = f"must be one of {', '.join(_LEVELS)}"
            errors.append(invalid(f"metadata.labels[{level}]", labels[level], text))
        if version in labels and not _VERSION.fullmatch(labels[version]):
            text = 'must be "latest" or "v1.x"'
            errors.append(invalid(f"metadata.labels[{version}]", labels[version], text))
    return errors


def pod_security_warnings(labels: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """One warning for each new or changed label whose level is not evaluated."""
    levels = ((f"{PREFIX}{mode}", labels.get(f"{PREFIX}{mode}", "")) for mode in _MODES)
    return [
        f"metadata.labels[{label}]: pod security is not evaluated by the embedded API server: pods that violate"
        f" {level!r} are not denied or audited and cause no warning"
        for label, level in levels
        if level in _LEVELS[1:] and before.get(label) != level
    ]
