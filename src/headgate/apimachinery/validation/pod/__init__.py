"""Validation of pods on create, update, status update and resize, and of pod templates.

Start with ``create.py`` and ``update.py``; ``options.py`` defines what an update tolerates.
"""

from __future__ import annotations

from headgate.apimachinery.validation.pod.create import validate_pod_create, validate_pod_template_spec
from headgate.apimachinery.validation.pod.resize import validate_pod_resize
from headgate.apimachinery.validation.pod.status import validate_pod_status_update
from headgate.apimachinery.validation.pod.update import validate_pod_ephemeral_containers, validate_pod_update

__all__ = [
    "validate_pod_create",
    "validate_pod_ephemeral_containers",
    "validate_pod_resize",
    "validate_pod_status_update",
    "validate_pod_template_spec",
    "validate_pod_update",
]
