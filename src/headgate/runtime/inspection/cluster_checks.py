"""The reads of ``headgate doctor``: a generator that yields requests, is sent responses, and returns all findings.

A list that is refused becomes a finding that names the missing right, and the other checks go on.
``diagnosis.py`` has the checks.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.gated_pods import count_gates, gated_pods
from headgate.client.pager import ACCEPT, ListRefused, ListResponse, list_all
from headgate.client.permissions import FORBIDDEN, NOT_FOUND, describe_permission, resource_name, unknown_text
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import LEASES, NAMESPACES, PODS, SERVICES, APIResource
from headgate.kube.serializer import wire_json
from headgate.quota.kinds.names import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.runtime.inspection.diagnosis import (
    Diagnosis,
    TerminatingObject,
    WebhookBackend,
    check_clock,
    check_deletions,
    check_gates,
    check_leases,
    check_queues,
    check_quota,
    check_webhooks,
    webhook_services,
)
from headgate.runtime.inspection.gate_owners import gate_owners
from headgate.runtime.inspection.queues import inspect_queues
from headgate.runtime.inspection.quota import inspect_quota
from headgate.runtime.inspection.unavailable import UnavailableResource

Wire = dict[str, Any]
Steps = Generator[HTTPRequest, HTTPResponse, list[Diagnosis]]

_REGISTRATION: Final = "admissionregistration.k8s.io"
_CONFIGURATIONS: Final = {
    "mutatingwebhookconfiguration": APIResource(_REGISTRATION, "v1", "mutatingwebhookconfigurations", namespaced=False),
    "validatingwebhookconfiguration": APIResource(
        _REGISTRATION, "v1", "validatingwebhookconfigurations", namespaced=False
    ),
}
_ENDPOINT_SLICES: Final = APIResource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
_LEASE_NAMESPACES: Final = ("kube-system", "volcano-system", "kueue-system")
_LEASE_NAMES: Final = ("headgate-", "volcano", "kueue", "c1f6bfd2.kueue.x-k8s.io", "kube-scheduler")
"""How the names of the Leases begin whose holders work on pods and queues."""
_DELETABLE: Final = (QUEUES, POD_GROUPS, CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS, RESOURCE_FLAVORS, WORKLOADS)
_RIGHTS_FILE: Final = "kubectl apply -f examples/reader-rights.yaml, and bind the user to ClusterRole headgate-reader"

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


def check_cluster(served: Collection[str], gated: Collection[str], now_s: float, skew_s: float) -> Steps:
    """``now_s``: by the local clock. ``skew_s``: by how much the clock of the API server is ahead."""
    server_s = now_s + skew_s
    refused: dict[str, Diagnosis] = {}
    found = [*check_clock(skew_s)]
    queues = yield from inspect_queues(served, gated, now_s)
    quota = yield from inspect_quota("", now_s)
    for each in (*queues.unavailable, *quota.unavailable):
        _note(refused, _of_unavailable(each))
    found += check_queues(queues)
    if not quota.is_absent:
        found += check_quota(quota)
    pods = yield from gated_pods("", "")
    if not isinstance(pods, ListRefused):
        owners = yield from gate_owners()
        if isinstance(owners, ListRefused):
            _note(refused, Diagnosis("warning", "rights", "gatepolicies", owners.text, _RIGHTS_FILE))
        found += check_gates(count_gates(pods), None if isinstance(owners, ListRefused) else owners, server_s)
    found += yield from _webhooks(refused)
    leases: list[Wire] = []
    for namespace in _LEASE_NAMESPACES:
        leases += yield from _list(LEASES, namespace, refused)
    watched = [each for each in leases if each["metadata"]["name"].startswith(_LEASE_NAMES)]
    found += check_leases(watched, server_s)
    terminating: list[TerminatingObject] = []
    for resource in (*_DELETABLE, NAMESPACES, PODS):
        terminating += yield from _terminating(resource, refused)
    found += check_deletions(terminating, server_s)
    return [*found, *refused.values()]


def _note(refused: dict[str, Diagnosis], found: Diagnosis | None) -> None:
    if found is not None:
        refused.setdefault(found.text, found)


def _of_unavailable(each: UnavailableResource) -> Diagnosis | None:
    if each.is_absent:
        return None
    if each.right:
        return Diagnosis("warning", "rights", each.plural, f"missing right: {each.right}; not checked", _RIGHTS_FILE)
    return Diagnosis("warning", "rights", each.plural, f"it could not be listed: {each.text}")


def _list(
    resource: APIResource,
    namespace: str | None,
    refused: dict[str, Diagnosis],
    label_selector: str = "",
) -> Generator[HTTPRequest, HTTPResponse, list[Wire]]:
    query = {"labelSelector": label_selector} if label_selector else {}
    listed = yield from list_all(resource.collection_path(namespace), _decode, query)
    if not isinstance(listed, ListRefused):
        return listed.items
    _note(refused, _of_refusal(resource, namespace, listed))
    return []


def _of_refusal(resource: APIResource, namespace: str | None, listed: ListRefused) -> Diagnosis | None:
    if listed.status == NOT_FOUND:
        return None
    name = resource_name(resource)
    if listed.status == FORBIDDEN:
        right = describe_permission("list", resource, namespace)
        return Diagnosis("warning", "rights", name, f"missing right: {right}; not checked", _RIGHTS_FILE)
    return Diagnosis("warning", "rights", name, f"it could not be listed: {unknown_text(listed)}")


def _webhooks(refused: dict[str, Diagnosis]) -> Steps:
    configurations = {}
    for kind, resource in _CONFIGURATIONS.items():
        configurations[kind] = yield from _list(resource, None, refused)
    backends: dict[tuple[str, str], WebhookBackend] = {}
    for place in sorted(webhook_services(each for listed in configurations.values() for each in listed)):
        backends[place] = yield from _backend(*place, refused)
    return [each for kind, listed in configurations.items() for each in check_webhooks(kind, listed, backends)]


def _backend(
    namespace: str, name: str, refused: dict[str, Diagnosis]
) -> Generator[HTTPRequest, HTTPResponse, WebhookBackend]:
    """Whether the Service has a ready endpoint. A Service without a selector may have endpoints of its own."""
    service = yield HTTPRequest("GET", SERVICES.object_path(namespace, name), "", ACCEPT)
    if service.status == NOT_FOUND:
        return WebhookBackend(f"its Service {namespace}/{name} does not exist")
    before = len(refused)
    slices = yield from _list(_ENDPOINT_SLICES, namespace, refused, f"kubernetes.io/service-name={name}")
    if len(refused) > before or any("endpointslices" in each for each in refused):
        return WebhookBackend(is_known=False)
    ready = [
        address
        for each in slices
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    ]
    return WebhookBackend("" if ready else f"its Service {namespace}/{name} has no ready endpoint")


def _terminating(
    resource: APIResource, refused: dict[str, Diagnosis]
) -> Generator[HTTPRequest, HTTPResponse, list[TerminatingObject]]:
    def read(body: bytes) -> ListResponse[TerminatingObject]:
        page = _decode(body)
        return ListResponse(page.metadata, [_read(resource, each) for each in page.items if _is_terminating(each)])

    listed = yield from list_all(resource.collection_path(), read)
    if isinstance(listed, ListRefused):
        _note(refused, _of_refusal(resource, None, listed))
        return []
    return listed.items


def _is_terminating(obj: Wire) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def _read(resource: APIResource, obj: Wire) -> TerminatingObject:
    metadata = obj["metadata"]
    finalizers = [*(metadata.get("finalizers") or ())]
    if resource is NAMESPACES:
        finalizers += (obj.get("spec") or {}).get("finalizers") or ()
    return TerminatingObject(
        resource.plural.removesuffix("s"),
        metadata.get("namespace") or "",
        metadata["name"],
        metadata["deletionTimestamp"],
        tuple(finalizers),
    )
