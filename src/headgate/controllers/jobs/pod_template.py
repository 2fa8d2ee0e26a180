"""The pods that a Job creates: its template, the tracking finalizer, and the additions for a completion index.

A pod of an Indexed job gets its index in an annotation, a label, its host name and an environment variable; with a
limit per index, it also gets the number of earlier failures of the index.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.jobs import policies
from headgate.controllers.jobs.job_pods import INDEX, INDEX_FAILURES, INDEX_IGNORED, TRACKING, UNKNOWN, JobPod
from headgate.controllers.jobs.spec import JobSpec
from headgate.controllers.ownership.pods import generated_name, pod_from_template, prefix_of
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

KIND: Final = GroupVersionKind("batch", "v1", "Job")

_MAX_PREFIX: Final = 58
_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}


def pod_body(job: Object, spec: JobSpec, index: int, before: JobPod | None, suffix: str) -> Object:
    """``before``: the failed pod of the same index that this one replaces, if failures are counted per index."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    own = (template.get("metadata") or {}).get("finalizers") or ()
    finalizers = () if TRACKING in own else (TRACKING,)
    prefix = prefix_of(name) if index == UNKNOWN else _index_prefix(name, index)
    pod = pod_from_template(template, job, KIND, generated_name(prefix, suffix), prefix=prefix, finalizers=finalizers)
    if index == UNKNOWN:
        return pod
    metadata = pod["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
    metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index), **_failures(spec, before)}
    pod["spec"]["hostname"] = f"{name}-{index}"
    for containers in ("initContainers", "containers"):
        if pod["spec"].get(containers):
            pod["spec"][containers] = [_with_variable(each) for each in pod["spec"][containers]]
    return pod


def _failures(spec: JobSpec, before: JobPod | None) -> dict[str, str]:
    if spec.backoff_limit_per_index is None:
        return {}
    failed = ignored = 0
    if before is not None:
        counts = policies.match_failure_policy(spec.failure_rules, before).counts
        failed, ignored = before.failures_before + counts, before.ignored_before + (not counts)
    return {INDEX_FAILURES: str(failed), **({INDEX_IGNORED: str(ignored)} if ignored else {})}


def _index_prefix(name: str, index: int) -> str:
    """Shortens the name of the job, never the index."""
    tail = f"-{index}-"
    return name[: _MAX_PREFIX - len(tail)] + tail


def _with_variable(container: Object) -> Object:
    variables = container.get("env") or []
    if any(each.get("name") == _VARIABLE["name"] for each in variables):
        return container
    return {**container, "env": [*variables, _VARIABLE]}
