"""Which ReplicaSet is the *new* one, the revision of each, and which old ones are kept.

The *new* ReplicaSet of a Deployment is the ReplicaSet with the Deployment's pod template (the label pod-template-hash
is not compared); if several have it, the oldest of them. All others are *old*. The new ReplicaSet always has the
highest revision: if the Deployment returns to an earlier template, the ReplicaSet of that template gets a new revision,
and the annotation ``deployment.kubernetes.io/revision-history`` records the earlier one. The Deployment's annotations
are copied to its new ReplicaSet, except those in ``_NOT_COPIED``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headgate.controllers.deployments.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    ReplicaSet,
    oldest_first,
)
from headgate.controllers.deployments.rolling_update import rollout_limits
from headgate.kube.labels import parse_int64
from headgate.kube.object_meta import controller_reference
from headgate.kube.pods.equality import semantically_equal
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"
_MAX_HISTORY: Final = 2000
_MAX_NAME: Final = 253
_UNLIMITED: Final = 2**31 - 1
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)


def find_new(deployment: Object, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    template = deployment["spec"]["template"]
    for each in oldest_first(sets):
        if same_template(each.obj["spec"]["template"], template):
            return each
    return None


def same_template(one: Object, other: Object) -> bool:
    return semantically_equal(_without_hash(one), _without_hash(other))


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max((each.revision or 0 for each in old), default=0) + 1


def size_annotations(deployment: Object) -> dict[str, str]:
    """The annotations that a ReplicaSet gets whenever it is scaled."""
    limit = rollout_limits(deployment)
    return {DESIRED_REPLICAS: str(limit.desired_replicas), MAX_REPLICAS: str(limit.max_replicas)}


def revision_annotations(deployment: Object, current: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations of the new ReplicaSet. ``current``: its present annotations. They are returned unchanged if their
    revision is not a number."""
    text = current.get(REVISION, "")
    number = parse_int64(text) if text else 0
    if number is None:
        return dict(current)
    copied = deployment["metadata"].get("annotations") or {}
    merged = {**current, **{key: value for key, value in copied.items() if key not in _NOT_COPIED}}
    if number < revision:
        merged[REVISION] = str(revision)
        if REVISION in current:
            merged.update(_history(current.get(REVISION_HISTORY, ""), text))
    return merged


def _history(before: str, revision: str) -> dict[str, str]:
    """Adds a revision to the history, and drops the oldest ones if the text is too long."""
    numbers = [*before.split(","), revision] if before else [revision]
    while len(numbers) > 1 and len(",".join(numbers)) > _MAX_HISTORY:
        del numbers[0]
    return {REVISION_HISTORY: ",".join(numbers)}


def new_replica_set(
    deployment: Object, kind: GroupVersionKind, template_hash: str, revision: int, replicas: int
) -> Object:
    """A ReplicaSet for the Deployment's template. The label pod-template-hash distinguishes its pods from the pods of
    the Deployment's other ReplicaSets."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: template_hash}
    selector = spec.get("selector") or {}
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: template_hash}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": replica_set_name(metadata["name"], template_hash),
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**revision_annotations(deployment, {}, revision), **size_annotations(deployment)},
            "ownerReferences": [controller_reference(deployment, kind)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": min_ready_s(deployment),
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def replica_set_name(name: str, template_hash: str) -> str:
    return f"{name[: _MAX_NAME - 1 - len(template_hash)]}-{template_hash}"


def min_ready_s(obj: Object) -> int:
    seconds: int = obj["spec"].get("minReadySeconds") or 0
    return seconds


def beyond_history(deployment: Object, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old ReplicaSets beyond the history limit: those with the lowest revisions, unless they still have pods."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == _UNLIMITED:
        return []
    staying = [each for each in oldest_first(old) if not each.is_terminating]
    staying.sort(key=lambda each: each.revision or 0)
    excess = staying[: max(0, len(staying) - limit)]
    return [each for each in excess if _is_empty(each)]


def _is_empty(each: ReplicaSet) -> bool:
    return each.status_replicas == 0 and each.replicas == 0 and each.generation <= each.observed_generation


def _without_hash(template: Object) -> Object:
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if HASH_LABEL not in labels:
        return template
    kept = {key: value for key, value in labels.items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": kept}}
