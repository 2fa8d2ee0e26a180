"""Admission by GatePolicies: which users may add gates to pods and pod templates, and which may lift them.

The handlers only refuse, so they run after all mutating handlers and see the gates that those have added. Writes in
exempt namespaces are not looked at. ``gate_policies/decision.py`` decides.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.settings import SYSTEM_NAMESPACE, AdmissionSettings, ClusterView
from headgate.gate_policies.decision import Requester, gates_of, refuse_lifting, refuse_new_pod, refuse_new_template
from headgate.gate_policies.pod_counts import AdmittedPod
from headgate.kube.lenient_reader import find_object, find_text

TEMPLATE: Final = ("spec", "template", "spec")
"""Where most kinds have the spec of their pods."""
_LIFTING_ACCOUNTS: Final = frozenset({f"system:serviceaccount:{SYSTEM_NAMESPACE}:headgate-quota"})
"""Of a process with the component jobs that runs outside an installation: it lifts gates and writes no stamps."""
CRON_JOB_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template", "spec")


def review_pod(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """A new pod adds gates, an update lifts gates."""
    if not _is_reviewed(request, settings):
        return ALLOWED
    new, old = gates_of(find_object(request.obj, "spec")), gates_of(find_object(request.old, "spec"))
    requester, find = _requester(request, settings), view.gate_policies.of_gate
    if request.operation == "UPDATE":
        return _response(refuse_lifting(requester, old, new, find))

    def count_pods(gate: str) -> int:
        return view.gated_pods.count(gate, request.namespace, request.now_s)

    refusal = refuse_new_pod(requester, new, find, count_pods)
    if refusal is None and not request.dry_run:
        limited = frozenset(gate for gate in new if (found := find(gate)) is not None and found.max_pods is not None)
        if limited:
            name = find_text(request.obj, "metadata", "name") or request.name or request.uid
            return AdmissionResponse(assumes=AdmittedPod(request.namespace, name, limited))
    return _response(refusal)


def review_template(
    path: tuple[str, ...], request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    """A pod template with new gates adds them to the pods that a controller creates from it. ``path``: of the spec of
    the pods."""
    if not _is_reviewed(request, settings):
        return ALLOWED
    new, old = gates_of(find_object(request.obj, *path)), gates_of(find_object(request.old, *path))
    requester, find = _requester(request, settings), view.gate_policies.of_gate
    return _response(refuse_new_template(requester, old, new, find, ".".join(path)))


def _is_reviewed(request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    return settings.features.gate_ownership and request.namespace not in settings.exempt_namespaces


def _requester(request: AdmissionRequest, settings: AdmissionSettings) -> Requester:
    return Requester(
        request.user,
        request.groups,
        is_headgate=request.user in settings.trusted_users or request.user in _LIFTING_ACCOUNTS,
        creates_for_others=request.user in settings.workload_controllers,
    )


def _response(refusal: str | None) -> AdmissionResponse:
    return ALLOWED if refusal is None else AdmissionResponse(refusal=refusal)
