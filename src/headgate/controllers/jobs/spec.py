"""The spec of a Job, parsed once: the other modules of the package read this, not the object.

Fields that the API server defaults have the same defaults here, so that a job that was stored before a field existed
reads the same.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Object = dict[str, Any]

MANAGED_HERE: Final = "kubernetes.io/job-controller"
_DEFAULT_BACKOFF_LIMIT: Final = 6
_NO_LIMIT: Final = (1 << 31) - 1


class JobSpec(msgspec.Struct, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    is_indexed: bool = False
    is_suspended: bool = False
    backoff_limit: int = _DEFAULT_BACKOFF_LIMIT
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_s: int | None = None
    restarts_containers: bool = False
    """The kubelet restarts containers in their pod, which counts towards the back-off limit."""
    failure_rules: tuple[Object, ...] | None = None
    success_rules: tuple[Object, ...] = ()
    replaces_only_failed: bool = False
    """A pod that is being deleted is neither failed nor replaced until it has ended."""

    @property
    def indexes(self) -> int:
        """The number of indexes; zero if the job is not indexed."""
        return self.completions or 0 if self.is_indexed else 0


def read(job: Object) -> JobSpec:
    spec = job.get("spec") or {}
    failure_policy = spec.get("podFailurePolicy")
    per_index = spec.get("backoffLimitPerIndex")
    default_limit = _DEFAULT_BACKOFF_LIMIT if per_index is None else _NO_LIMIT
    return JobSpec(
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        is_indexed=spec.get("completionMode") == "Indexed",
        is_suspended=spec.get("suspend") is True,
        backoff_limit=spec.get("backoffLimit", default_limit),
        backoff_limit_per_index=per_index,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        active_deadline_s=spec.get("activeDeadlineSeconds"),
        restarts_containers=(spec["template"].get("spec") or {}).get("restartPolicy") == "OnFailure",
        failure_rules=None if failure_policy is None else tuple(failure_policy.get("rules") or ()),
        success_rules=tuple((spec.get("successPolicy") or {}).get("rules") or ()),
        replaces_only_failed=spec.get("podReplacementPolicy") == "Failed" or failure_policy is not None,
    )


def is_managed_elsewhere(job: Object) -> bool:
    """``spec.managedBy`` names another controller: the job is ignored."""
    manager: str = (job.get("spec") or {}).get("managedBy", MANAGED_HERE)
    return manager != MANAGED_HERE
