"""Rules for pods, as deep as the API server's: on create, update, status, resize, and inside workload templates.

``create.py`` and ``update.py`` are where to start reading; ``options.py`` says what updates tolerate.
"""

from __future__ import annotations

from headgate.kube.validation.pod.create import validate_pod_create, validate_pod_template_spec

__all__ = ["validate_pod_create", "validate_pod_template_spec"]
