"""The strategy of Services: allocates cluster IPs, IP families and node ports, and removes fields that the type of a
Service does not allow.

This server is a single-stack IPv4 cluster, like a default kube-apiserver. The allocated values are those of the stored
Services (``apiserver/allocations.py``). There is no second record of allocations that would need repair.
"""

from __future__ import annotations

from collections.abc import Hashable
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from headgate.apimachinery.strategy.contract import (
    AllocationPool,
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import SPEC, STATUS, drop_status, keep_field, keep_spec
from headgate.apimachinery.validation.networking.service import (
    externally_accessible,
    needs_health_check,
    service_warnings,
    validate_service_create,
    validate_service_status_update,
    validate_service_update,
)
from headgate.apimachinery.validation.networking.service_addresses import family_of, is_headless, validate_addresses
from headgate.kube.field_errors import FieldError, FieldErrors, internal, invalid, quote, required
from headgate.kube.names import name_is_path_segment

CLUSTER_RANGE: Final = IPv4Network("10.96.0.0/16")
KUBERNETES_ADDRESS: Final = "10.96.0.1"
_FIRST_NODE_PORT, _NODE_PORTS = 30000, 2768
_FAMILY: Final = "IPv4"


class _Allocator:
    """Allocates values that no other stored Service has, and that this request has not allocated yet.

    ``own``: the spec before an update; its values may be allocated again.
    """

    def __init__(self, pool: AllocationPool, own: Object | None) -> None:
        self._pool = pool
        self._own = frozenset(_allocations(own)) if own is not None else frozenset()
        self._allocated: set[Hashable] = set()

    @property
    def dry_run(self) -> bool:
        return self._pool.dry_run

    def _is_taken(self, value: Hashable) -> bool:
        return value in self._allocated or (value in self._pool.taken and value not in self._own)

    def allocate_address(self) -> str | None:
        hosts = CLUSTER_RANGE.num_addresses - 2
        start = self._pool.random_below(hosts)
        for step in range(hosts):
            candidate = str(CLUSTER_RANGE[1 + (start + step) % hosts])
            if not self._is_taken(candidate):
                self._allocated.add(candidate)
                return candidate
        return None

    def reserve_address(self, address: str) -> str:
        """Allocates this address. Returns the error text, or an empty text."""
        requested = IPv4Address(address)
        if not CLUSTER_RANGE.network_address < requested < CLUSTER_RANGE.broadcast_address:
            if self.dry_run:
                return (
                    f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {CLUSTER_RANGE}"
                )
            return "the provided network does not match the current range"
        # A dry run does not check whether the address is taken.
        if not self.dry_run and self._is_taken(address):
            return "provided IP is already allocated"
        self._allocated.add(address)
        return ""

    def allocate_port(self) -> int | None:
        start = self._pool.random_below(_NODE_PORTS)
        for step in range(_NODE_PORTS):
            candidate = _FIRST_NODE_PORT + (start + step) % _NODE_PORTS
            if not self._is_taken(candidate):
                self._allocated.add(candidate)
                return candidate
        return None

    def reserve_port(self, port: int) -> str:
        """Allocates this node port. Returns the error text, or an empty text."""
        if not _FIRST_NODE_PORT <= port < _FIRST_NODE_PORT + _NODE_PORTS:
            last = _FIRST_NODE_PORT + _NODE_PORTS - 1
            return f"provided port is not in the valid range. The range of valid ports is {_FIRST_NODE_PORT}-{last}"
        if self._is_taken(port):
            return "provided port is already allocated"
        self._allocated.add(port)
        return ""


def _allocations(spec: Object) -> list[Hashable]:
    """The addresses and node ports of a Service. Addresses are texts and ports are numbers, so one pool has both."""
    return [*(each for each in spec.get("clusterIPs") or () if each != "None"), *_node_ports(spec)]


def _node_ports(spec: Object) -> list[int]:
    ports = [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]
    return [*ports, spec["healthCheckNodePort"]] if spec.get("healthCheckNodePort") else ports


def _needs_node_ports(spec: Object) -> bool:
    if spec.get("type") == "NodePort":
        return True
    return spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)


def allocate_service(new: Object, old: Object | None, pool: AllocationPool) -> FieldErrors | str:
    spec, old_spec = new["spec"], old["spec"] if old else None
    if old_spec is not None:
        _keep_allocated(spec, old_spec)
    _normalize_addresses(spec, old_spec)
    errors = _set_ip_families(spec, old_spec)
    if errors:
        return errors
    allocator = _Allocator(pool, old_spec)
    if old_spec is not None and (duplicate_port := _duplicate_node_port(spec)):
        return duplicate_port
    problem = _allocate_addresses(spec, old_spec, allocator, new["metadata"].get("name", "")) or _allocate_ports(
        spec, allocator
    )
    # A health check port that is already allocated is immutable; validation reports a change.
    if problem is None and needs_health_check(spec) and not (old_spec and needs_health_check(old_spec)):
        problem = _allocate_health_port(spec, allocator)
    return [problem] if problem else []


def _keep_allocated(spec: Object, old: Object) -> None:
    """Copies allocated values of the old spec that the update omits."""
    if "ExternalName" not in (spec.get("type"), old.get("type")):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and old.get(field):
                spec[field] = old[field]
    if _needs_node_ports(spec) and _needs_node_ports(old):
        used = set(_node_ports(spec)) & set(_node_ports(old))
        by_name = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            stored = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and stored and stored not in used:
                port["nodePort"] = stored
    if needs_health_check(spec) and needs_health_check(old) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old.get("healthCheckNodePort", 0)


def _normalize_addresses(spec: Object, old: Object | None) -> None:
    """``clusterIPs`` follows ``clusterIP`` for clients that know only the older field."""
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if old is None:
        if address and not addresses:
            spec["clusterIPs"] = [address]
        return
    stored, all_stored = old.get("clusterIP", ""), old.get("clusterIPs") or []
    if not addresses and all_stored and address == stored:
        spec["clusterIPs"] = all_stored
    elif address != stored and addresses == all_stored:
        if address:
            spec["clusterIPs"] = [address]
        else:
            spec.pop("clusterIPs", None)


def _set_ip_families(spec: Object, old: Object | None) -> FieldErrors:
    if spec.get("type") == "ExternalName":
        return []
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        stored = (old or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = stored or ("RequireDualStack" if selectorless else "SingleStack")
    errors = validate_addresses(spec, (old or {}).get("clusterIPs") or ())
    if errors:
        return errors
    policy, families = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    addresses = spec.get("clusterIPs") or []
    path = "spec.ipFamilyPolicy"
    if policy == "SingleStack":
        for noun, given in (("cluster IPs", addresses), ("IP families", families)):
            if len(given) == 2:
                text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified"
                errors.append(invalid(path, policy, text))
    for i, address in enumerate(addresses):
        if address == "None" or i < len(families):
            continue
        if family_of(address) != _FAMILY:
            text = f"{family_of(address)} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{i}]", addresses, text))
        else:
            families.append(_FAMILY)
    if errors:
        return errors
    if selectorless:
        families = families or [_FAMILY]
        if len(families) == 1 and policy != "SingleStack":
            families.append("IPv6" if families[0] == _FAMILY else _FAMILY)
        spec["ipFamilies"] = families
        return []
    if policy == "RequireDualStack":
        errors.append(invalid(path, policy, "this cluster is not configured for dual-stack services"))
    for i, family in enumerate(families):
        if family != _FAMILY:
            errors.append(invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster"))
    spec["ipFamilies"] = families or [_FAMILY]
    return errors


def _name_error(name: str) -> FieldError | None:
    """The error of kube-apiserver for an IPAddress object that refers to a Service with an invalid name.

    The address is allocated before the Service is validated, so this error comes first.
    """
    path = "spec.parentRef.name"
    if not name:
        return required(path)
    messages = name_is_path_segment(name, False)
    return invalid(path, name, messages[0]) if messages else None


def _allocate_addresses(spec: Object, old: Object | None, allocator: _Allocator, name: str) -> FieldError | None:
    if spec.get("type") == "ExternalName" or is_headless(spec):
        return None
    if old is not None and old.get("type") != "ExternalName":
        return None
    addresses = spec.get("clusterIPs") or []
    if addresses:
        problem = allocator.reserve_address(addresses[0])
        text = f"failed to allocate IP {addresses[0]}: {problem}"
        return invalid("spec.clusterIPs", addresses, text) if problem else None
    address = allocator.allocate_address()
    if address is None:
        return internal("spec.clusterIPs", "failed to allocate a serviceIP: range is full")
    if not allocator.dry_run and (name_error := _name_error(name)) is not None:
        text = f"failed to allocate IP: IPAddress.networking.k8s.io {quote(address)} is invalid: {name_error}"
        return invalid("spec.clusterIPs", [""], text)
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    return None


def _duplicate_node_port(spec: Object) -> str:
    """The error text if an update has a node port twice for one protocol; otherwise empty.

    kube-apiserver finds it during the allocation, so it is no field error.
    """
    seen: set[tuple[str, int]] = set()
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            pair = (port.get("protocol", ""), port.get("nodePort", 0))
            if pair[1] and pair in seen:
                return f"duplicate nodePort: {{{pair[0]} {pair[1]}}}"
            seen.add(pair)
    return ""


def _allocate_ports(spec: Object, allocator: _Allocator) -> FieldError | None:
    """Allocates the node ports. Ports with the same number and different protocols share their node port."""
    node_ports_by_port: dict[int, int] = {}
    for i, port in enumerate(spec.get("ports") or ()):
        path, number, requested = f"spec.ports[{i}].nodePort", port.get("port", 0), port.get("nodePort", 0)
        if spec.get("type") not in ("NodePort", "LoadBalancer") or (not requested and not _needs_node_ports(spec)):
            continue
        shared = node_ports_by_port.get(number, 0)
        if shared and requested in (0, shared):
            port["nodePort"] = shared
            continue
        if requested:
            problem = allocator.reserve_port(requested)
            if problem:
                return invalid(path, requested, problem)
        else:
            allocated = allocator.allocate_port()
            if allocated is None:
                return internal(path, "failed to allocate a nodePort: range is full")
            port["nodePort"] = allocated
        node_ports_by_port.setdefault(number, port["nodePort"])
    return None


def _allocate_health_port(spec: Object, allocator: _Allocator) -> FieldError | None:
    path, requested = "spec.healthCheckNodePort", spec.get("healthCheckNodePort", 0)
    if requested:
        problem = allocator.reserve_port(requested)
        text = f"failed to allocate requested HealthCheck NodePort {requested}: {problem}"
        return internal(path, text) if problem else None
    allocated = allocator.allocate_port()
    if allocated is None:
        return internal(path, "failed to allocate a HealthCheck NodePort: range is full")
    spec["healthCheckNodePort"] = allocated
    return None


def _prepare_create(obj: Object, ctx: StrategyContext) -> None:
    drop_status(obj, ctx)
    _drop_internal_policy(obj["spec"])


def _prepare_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    _drop_fields_of_old_type(new, old)
    _drop_internal_policy(new["spec"])


def _drop_internal_policy(spec: Object) -> None:
    """Removes a valid ``internalTrafficPolicy`` of an ExternalName Service, which has no internal traffic. An invalid
    one stays, and validation rejects it."""
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
        del spec["internalTrafficPolicy"]


def _drop_fields_of_old_type(new: Object, old: Object) -> None:
    """Removes fields that only the old type of the Service needs, unless the client has changed them, too."""
    spec, stored = new["spec"], old["spec"]

    def drop(*fields: str) -> None:
        if all(spec.get(field) == stored.get(field) for field in fields):
            for field in fields:
                spec.pop(field, None)

    if stored.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        drop("clusterIP", "clusterIPs")
        drop("ipFamilies")
        drop("ipFamilyPolicy")
    exposed = ("NodePort", "LoadBalancer")
    kept_ports = {0, *(port.get("nodePort", 0) for port in stored.get("ports") or ())}
    if stored.get("type") in exposed and spec.get("type") not in exposed:
        ports = spec.get("ports") or []
        if all(port.get("nodePort", 0) in kept_ports for port in ports):
            spec["ports"] = [{name: value for name, value in port.items() if name != "nodePort"} for port in ports]
    if needs_health_check(stored) and not needs_health_check(spec):
        drop("healthCheckNodePort")
    if stored.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        drop("allocateLoadBalancerNodePorts")
        drop("loadBalancerClass")
    if externally_accessible(stored) and not externally_accessible(spec):
        drop("externalTrafficPolicy")
    if spec.get("type") != "LoadBalancer" and new.get("status"):
        new["status"] = {**new["status"], "loadBalancer": {}}


SERVICE: Final = Strategy(
    allow_create_on_update=True,
    allocate=allocate_service,
    allocations=lambda service: _allocations(service.get("spec") or {}),
    prepare_create=_prepare_create,
    validate_create=validate_create_without_context(validate_service_create),
    warnings_create=lambda obj, ctx: service_warnings(obj),
    update=UpdateRules(
        prepare=_prepare_update,
        validate=validate_update_without_context(validate_service_update),
        warnings=lambda new, old, ctx: service_warnings(new),
        reset_fields=STATUS,
    ),
    subresources={
        "status": UpdateRules(
            prepare=keep_spec,
            validate=validate_update_without_context(validate_service_status_update),
            reset_fields=SPEC,
        )
    },
)
