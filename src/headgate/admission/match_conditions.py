"""CEL expressions for ``matchConditions`` of webhooks: the objects that an API server *asks about*, which means that it
sends them to the webhook.

Each expression is true for every object that its handler would change, reject or warn about, and false for as many
others as possible. A handler must not rely on the expression: the embedded server calls it for every object, and so
does an API server without ``matchConditions``. ``steps.py`` assigns the expressions; ``runtime/webhooks/`` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import GATE, LAPSED, LEASE, OPT_IN, STAMP
from headgate.jobs.names import SCHEDULING_GATED_BY, SUSPENDING_PARENT
from headgate.quota.names import ADMISSION_GATED_BY, GROUP

MatchExpression = Callable[[AdmissionSettings, ReviewScope], str]
EVERY: Final = ""
"""The expression of a step that is asked about every object."""
_MAX_NAMESPACES: Final = 100
"""With more namespaces than that, objects of all namespaces are asked about, to limit the length of the expression."""
_MAX_GATES: Final = 100
"""With more gates than that, objects with any gate are asked about."""
_NEVER: Final = "false"
"""The expression of a step that applies to no object now."""
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_ANNOTATIONS: Final = "object.metadata.annotations"
_OLD_ANNOTATIONS: Final = "oldObject.metadata.annotations"
_HAS_NO_NODE: Final = "(!has(object.spec.nodeName) || object.spec.nodeName == '')"
_SCHEDULER: Final = f"(has(object.spec.schedulerName) ? object.spec.schedulerName : '{_DEFAULT_SCHEDULER}')"
_HAS_GATE: Final = f"(has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(g, g.name == '{GATE}'))"


def every_object(settings: AdmissionSettings, scope: ReviewScope) -> str:
    return EVERY


def new_pod_of_queue_gate(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """New pods with an annotation or the gate of Headgate, and pods without a node that may opt in otherwise.

    Pods of Headgate's own schedulers are always asked about. ``default-scheduler`` is the scheduler of nearly all pods,
    so its pods are asked about only if their namespace, a queue or the installation opts in."""
    clauses = [_has_key(_ANNOTATIONS, STAMP), _has_key(_ANNOTATIONS, OPT_IN), _HAS_GATE]
    own = settings.schedulers - {_DEFAULT_SCHEDULER}
    if own:
        clauses.append(f"({_SCHEDULER} in {_list(own)} && {_HAS_NO_NODE})")
    if _DEFAULT_SCHEDULER in settings.schedulers:
        namespaces = (
            "true"
            if settings.gates_all_pods or scope.has_opted_in_queue
            else _is_in_namespaces(scope.opted_in_namespaces)
        )
        if namespaces:
            clauses.append(f"({_SCHEDULER} == '{_DEFAULT_SCHEDULER}' && {_HAS_NO_NODE} && {namespaces})")
    return " || ".join(clauses)


def changed_stamp(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Updates that add, change or remove the stamp, the record of lapses or the lease, except those of Headgate itself:
    it stamps every pod that it admits."""
    changed = " || ".join(map(_is_changed, (STAMP, LAPSED, LEASE)))
    return f"!(request.userInfo.username in {_list(settings.trusted_users)}) && ({changed})"


def resize_of_scheduled_pod(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Resizes of pods on a node that one of Headgate's schedulers placed."""
    return f"{_SCHEDULER} in {_list(settings.schedulers)} && !{_HAS_NO_NODE}"


def pod_without_queue(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Of the pods that name no queue: those of managed owners, and those that a default queue takes."""
    return _of_default_queue(settings, scope, _has_key(_ANNOTATIONS, SUSPENDING_PARENT))


def job_without_queue(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Of the jobs that name no queue: those that a default queue takes."""
    return _of_default_queue(settings, scope)


def pod_owner_without_queue(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Of the Deployments and similar kinds that name no queue: those that a default queue takes, and those with a gate
    annotation, which an update must not add."""
    gates = (_has_key(_ANNOTATIONS, each) for each in (SCHEDULING_GATED_BY, ADMISSION_GATED_BY))
    return _of_default_queue(settings, scope, *gates)


def pod_with_kueue_metadata(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Pods with a label or an annotation of Kueue's, before or after the write."""
    return _mentions_kueue("metadata")


def owner_with_kueue_metadata(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """The same for objects with a pod template, or for their template."""
    return _mentions_kueue("metadata", "spec.template.metadata")


def is_not_terminating(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """The garbage collector must be able to update an object that is being deleted, also during an outage."""
    return "!has(object.metadata.deletionTimestamp)"


def pod_with_owned_gate(settings: AdmissionSettings, scope: ReviewScope) -> str:
    """New pods with a gate that has a GatePolicy, and updates that lift a gate of such a pod."""
    if not scope.gates:
        return _NEVER
    added = _has_owned_gate("object.spec", scope)
    lifted = (
        "(!has(object.spec.schedulingGates) || "
        "object.spec.schedulingGates.size() < oldObject.spec.schedulingGates.size())"
    )
    return f"oldObject == null ? {added} : ({_has_owned_gate('oldObject.spec', scope)} && {lifted})"


def template_with_owned_gate(path: tuple[str, ...], settings: AdmissionSettings, scope: ReviewScope) -> str:
    """Objects whose pod template has a gate with a GatePolicy, and did not have the same gates before. ``path``: of the
    spec of the pods."""
    if not scope.gates:
        return _NEVER
    inside = ".".join(path)
    owned = _has_owned_gate(f"object.{inside}", scope)
    same = f"object.{inside}.schedulingGates == oldObject.{inside}.schedulingGates"
    return f"{owned} && !{_has_path(f'oldObject.{inside}.schedulingGates', same)}"


def _has_owned_gate(spec: str, scope: ReviewScope) -> str:
    gates = f"{spec}.schedulingGates"
    is_owned = "true" if len(scope.gates) > _MAX_GATES else f"g.name in {_list(scope.gates)}"
    return _has_path(gates, f"{gates}.exists(g, {is_owned})")


def _of_default_queue(settings: AdmissionSettings, scope: ReviewScope, *others: str) -> str:
    if settings.jobs.manages_all:
        return EVERY
    clauses = [*others, *filter(None, (_is_in_namespaces(scope.default_queue_namespaces),))]
    return " || ".join(clauses) or _NEVER


def _mentions_kueue(*metadata_paths: str) -> str:
    clauses = [
        _has_path(f"{root}.{path}.{field}", f"{root}.{path}.{field}.exists(k, k.startsWith('{GROUP}/'))")
        for root in ("object", "oldObject")
        for path in metadata_paths
        for field in ("labels", "annotations")
    ]
    return " || ".join(clauses)


def _has_path(path: str, then: str) -> str:
    """Whether every part of the path exists and the expression ``then`` holds. On a create, ``oldObject`` is null."""
    root, *names = path.split(".")
    checks, reached = [f"{root} != null"] if root == "oldObject" else [], root
    for name in names:
        reached = f"{reached}.{name}"
        checks.append(f"has({reached})")
    return f"({' && '.join((*checks, then))})"


def _has_key(field: str, key: str) -> str:
    return f"(has({field}) && '{key}' in {field})"


def _is_changed(key: str) -> str:
    """Whether an update adds, changes or removes the annotation."""
    after, before = _has_key(_ANNOTATIONS, key), _has_key(_OLD_ANNOTATIONS, key)
    return f"({after} != {before} || ({after} && {_ANNOTATIONS}['{key}'] != {_OLD_ANNOTATIONS}['{key}']))"


def _is_in_namespaces(names: Iterable[str]) -> str:
    """Empty if there are no namespaces."""
    ordered = sorted(names)
    if not ordered:
        return ""
    return "true" if len(ordered) > _MAX_NAMESPACES else f"request.namespace in {_list(ordered)}"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(_quote(name) for name in sorted(names))}]"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
