"""Whether an installation works: its replicas are ready, its webhooks can be called, its kinds are served, its pods
have their rights, and each component has a leader that renews its Lease.

It only reads. ``helm test`` runs it (``hooks.py``), with the rights in ``rights.STATUS_RULES``; ``checking.py``
compares the objects themselves.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import ACCEPT
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query
from headgate.install.applying import decode
from headgate.install.kinds import ENDPOINT_SLICES, MUTATING, RESOURCES, VALIDATING
from headgate.install.manifests import needed_definitions
from headgate.install.names import NAME, entry_component
from headgate.install.options import COMPONENTS, ComponentOptions, InstallOptions
from headgate.install.rights import COMPONENT_ROLE, CONFIGURATION_NAME, LEASE_NAMESPACE, LEASES
from headgate.kube.api_resources import (
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    SERVICES,
    APIResource,
)
from headgate.kube.api_resources import LEASES as LEASE_OBJECTS
from headgate.kube.timestamps import parse_micro_time

Object = dict[str, Any]
StatusSteps = Generator[DelayedRequest, HTTPResponse, "InstallStatus"]

_NOT_FOUND: Final = 404
_PAUSE_S: Final = 1.0
_LEASE_S: Final = 15
_MICROS: Final = 1_000_000


class InstallStatus(msgspec.Struct, frozen=True):
    """``problem``: why this part does not work; empty if it does. ``detail``: what was found."""

    name: str
    detail: str = ""
    problem: str = ""


def status_steps(namespace: str, components: Iterable[str]) -> list[StatusSteps]:
    """The checks of an installation with these components. They may be performed in parallel."""
    chosen = tuple(components)
    webhooks = [
        *(_webhooks(each, namespace) for each in (MUTATING, VALIDATING)),
        _service(namespace),
    ]
    return [
        _replicas(namespace),
        _kinds(namespace, chosen),
        _roles(namespace, chosen),
        *(webhooks if "webhooks" in chosen else ()),
        *(_leader(each) for each in chosen if each in LEASES),
    ]


def _replicas(namespace: str) -> StatusSteps:
    name = f"deployment.apps/{NAME}"
    found = yield from _read(DEPLOYMENTS, namespace, NAME)
    if isinstance(found, str):
        return InstallStatus(name, problem=found)
    status, wanted = found.get("status") or {}, int(found["spec"].get("replicas") or 0)
    ready, updated = int(status.get("availableReplicas") or 0), int(status.get("updatedReplicas") or 0)
    detail = f"{ready} of {wanted} replicas are available, {updated} of them up to date"
    is_observed = status.get("observedGeneration") == found["metadata"].get("generation")
    if wanted and is_observed and ready >= wanted and updated >= wanted:
        return InstallStatus(name, detail)
    hint = f"see: kubectl -n {namespace} describe deployment {NAME}"
    return InstallStatus(name, problem=f"{detail}; {hint}")


def _kinds(namespace: str, components: tuple[str, ...]) -> StatusSteps:
    """Whether the kinds of the components are served, whichever program installed them."""
    options = InstallOptions(components=ComponentOptions(**{name: name in components for name in COMPONENTS}))
    names = [each["metadata"]["name"] for each in needed_definitions(options)]
    problems = []
    for name in names:
        found = yield from _read(CUSTOM_RESOURCE_DEFINITIONS, "", name)
        if isinstance(found, str):
            problems.append(f"{name}: {found}")
        elif found["metadata"].get("deletionTimestamp"):
            problems.append(f"{name} is being deleted")
        elif not _is_established(found):
            problems.append(f"{name} is not served yet; see its conditions")
    if problems:
        return InstallStatus("customresourcedefinitions", problem=f"{'; '.join(problems)}; {_repair(namespace)}")
    return InstallStatus("customresourcedefinitions", f"{len(names)} kinds are served")


def _is_established(definition: Mapping[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def _roles(namespace: str, components: tuple[str, ...]) -> StatusSteps:
    """Whether the ServiceAccount of the pods is bound to the ClusterRoles of the components."""
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    problems = []
    for name in (f"{COMPONENT_ROLE}-{component}" for component in components):
        role = yield from _read(CLUSTER_ROLES, "", name)
        binding = yield from _read(RESOURCES["ClusterRoleBinding"], "", name)
        if isinstance(role, str):
            problems.append(f"ClusterRole {name}: {role}")
        if isinstance(binding, str):
            problems.append(f"ClusterRoleBinding {name}: {binding}")
        elif not any(each.items() >= account.items() for each in binding.get("subjects") or ()):
            problems.append(f"ClusterRoleBinding {name} does not bind the ServiceAccount {namespace}/{NAME}")
    if problems:
        return InstallStatus("clusterroles", problem=f"{'; '.join(problems)}; {_repair(namespace)}")
    return InstallStatus("clusterroles", f"{len(components)} components have their rights")


def _webhooks(resource: APIResource, namespace: str) -> StatusSteps:
    name = f"{resource.plural.removesuffix('s')}/{CONFIGURATION_NAME}"
    found = yield from _read(resource, "", CONFIGURATION_NAME)
    if isinstance(found, str):
        return InstallStatus(name, problem=f"{found}; a replica registers it when its webhook server is ready")
    entries = [each for each in found.get("webhooks") or () if entry_component(str(each.get("name")))]
    clients = [each.get("clientConfig") or {} for each in entries]
    if not clients or not all(each.get("caBundle") for each in clients):
        return InstallStatus(name, problem="it has no webhooks with a certificate authority; see the log of the pods")
    places = {each["service"].get("namespace") for each in clients if each.get("service")}
    if others := sorted(places - {namespace}):
        text = f"its webhooks are called in namespace {', '.join(others)}, not in {namespace}; see the log of the pods"
        return InstallStatus(name, problem=text)
    others_count = len(found["webhooks"]) - len(clients)
    more = f", and {others_count} of other programs" if others_count else ""
    return InstallStatus(name, f"{len(clients)} webhooks{more}")


def _service(namespace: str) -> StatusSteps:
    """API servers call the webhooks through this Service."""
    name = f"service/{NAME}"
    found = yield from _read(SERVICES, namespace, NAME)
    if isinstance(found, str):
        text = f"{found}; API servers cannot call the webhooks; {_repair(namespace)}"
        return InstallStatus(name, problem=text)
    query = encode_query({"labelSelector": f"kubernetes.io/service-name={NAME}"})
    path = ENDPOINT_SLICES.collection_path(namespace)
    response = yield DelayedRequest(HTTPRequest("GET", path, query, ACCEPT))
    if not response.ok:
        return InstallStatus(name, problem=f"cannot list its EndpointSlices: {response.status}: {message_of(response)}")
    ready = {
        address
        for each in decode(response).get("items") or ()
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    }
    if not ready:
        hint = f"see: kubectl -n {namespace} get pods,endpointslices"
        return InstallStatus(name, problem=f"it has no ready endpoints: API servers cannot call the webhooks; {hint}")
    return InstallStatus(name, "it has ready endpoints")


def _leader(component: str) -> StatusSteps:
    """A holder that does not renew its Lease is no leader. The clocks of holder and server may differ: a Lease that
    looks expired is read again until it is renewed, or was not renewed for as long as it is valid."""
    name = f"component {component}"
    place = f"{LEASE_NAMESPACE}/{LEASES[component]}"
    request = HTTPRequest("GET", LEASE_OBJECTS.object_path(LEASE_NAMESPACE, LEASES[component]), "", ACCEPT)
    response = yield DelayedRequest(request)
    if not response.ok:
        return InstallStatus(name, problem=_refused(response))
    spec = first = decode(response).get("spec") or {}
    valid_s = float(first.get("leaseDurationSeconds") or _LEASE_S)
    is_renewed = _age_s(response, first) < valid_s
    waited_s = 0.0
    while not is_renewed and spec.get("holderIdentity") and waited_s < valid_s:
        response = yield DelayedRequest(request, _PAUSE_S)
        waited_s += _PAUSE_S
        if not response.ok:
            return InstallStatus(name, problem=_refused(response))
        spec = decode(response).get("spec") or {}
        is_renewed = spec.get("renewTime") != first.get("renewTime")
    holder = spec.get("holderIdentity")
    if not holder:
        return InstallStatus(name, problem=f"no replica holds the Lease {place}")
    if not is_renewed:
        text = f"the Lease {place} expired: {holder} has not renewed it since {spec.get('renewTime') or 'its creation'}"
        return InstallStatus(name, problem=f"{text}, so no replica works; see the pods and their logs")
    return InstallStatus(name, f"the leader is {holder}")


def _age_s(response: HTTPResponse, lease: Mapping[str, Any]) -> float:
    """By how much the renewal and the response differ in time; infinite if one of the times is unknown."""
    renewed_us = parse_micro_time(str(lease.get("renewTime") or ""))
    try:
        now_s = parsedate_to_datetime(response.headers.get("date", "")).timestamp()
    except ValueError:
        return float("inf")
    return float("inf") if isinstance(renewed_us, str) else abs(now_s - renewed_us / _MICROS)


def _repair(namespace: str) -> str:
    return f"run: headgate install --namespace {namespace} --apply (or helm upgrade, if Helm manages it)"


def _read(
    resource: APIResource, namespace: str, name: str
) -> Generator[DelayedRequest, HTTPResponse, Mapping[str, Any] | str]:
    response = yield DelayedRequest(HTTPRequest("GET", resource.object_path(namespace, name), "", ACCEPT))
    return decode(response) if response.ok else _refused(response)


def _refused(response: HTTPResponse) -> str:
    return "missing" if response.status == _NOT_FOUND else f"{response.status}: {message_of(response)}"
