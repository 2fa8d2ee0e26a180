"""The pods that a Job makes: its template, the finalizer by which they are counted, and what an index adds.

A pod of an index is told its index in an annotation, a label, its host name and an environment variable; where the
job has a limit per index, it is also told how often the index has failed before.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.schema import GroupVersionKind
from headgate.owners.families.pods import drawn_name, pod_from, prefix_of
from headgate.owners.jobs import policies
from headgate.owners.jobs.members import INDEX, INDEX_FAILURES, INDEX_IGNORED, TRACKING, UNKNOWN, Member
from headgate.owners.jobs.spec import JobSpec

Object = dict[str, Any]

KIND: Final = GroupVersionKind("batch", "v1", "Job")

_LONGEST_PREFIX: Final = 58
_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
}


def pod_body(job: Object, spec: JobSpec, index: int, before: Member | None, drawn: str) -> Object:
    """``before`` is the failed pod of the same index that this one replaces, if that has to be known."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    own = (template.get("metadata") or {}).get("finalizers") or ()
    finalizers = () if TRACKING in own else (TRACKING,)
    prefix = prefix_of(name) if index == UNKNOWN else _index_prefix(name, index)
    pod = pod_from(template, job, KIND, drawn_name(prefix, drawn), prefix=prefix, finalizers=finalizers)
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


def _failures(spec: JobSpec, before: Member | None) -> dict[str, str]:
    if spec.backoff_limit_per_index is None:
        return {}
    failed = ignored = 0
    if before is not None:
        counts = policies.match(spec.failure_rules, before).counts
        failed, ignored = before.failures_before + counts, before.ignored_before + (not counts)
    return {INDEX_FAILURES: str(failed), **({INDEX_IGNORED: str(ignored)} if ignored else {})}


def _index_prefix(name: str, index: int) -> str:
    """The index is never cut off."""
    tail = f"-{index}-"
    return name[: _LONGEST_PREFIX - len(tail)] + tail


def _with_variable(container: Object) -> Object:
    variables = container.get("env") or []
    if any(each.get("name") == _VARIABLE["name"] for each in variables):
        return container
    return {**container, "env": [*variables, _VARIABLE]}
