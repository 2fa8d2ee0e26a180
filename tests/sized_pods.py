"""Pods with one part that a client makes as large as it likes.

``SIZED`` has a small size for each; eight times that is about as much as the scheduler reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusters import a_pod

Object = dict[str, Any]
Make = Callable[[int], Object]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR = {"matchLabels": {"a": "b"}}


def _pod(**spec: Any) -> Object:
    return a_pod("sized", labels={"a": "b"}, **spec)


def _spread(number: int, key: str, when: str, **more: Any) -> Object:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": _SELECTOR, **more}
    return {**constraint, "matchLabelKeys": [f"m{number}"]}


def _hard_keys(size: int) -> Object:
    return _pod(topologySpreadConstraints=[_spread(i, f"k{i}", "DoNotSchedule") for i in range(size)])


def _soft_keys(size: int) -> Object:
    return _pod(topologySpreadConstraints=[_spread(i, f"k{i}", "ScheduleAnyway") for i in range(size)])


def _selected(number: int) -> Object:
    return {"labelSelector": {"matchExpressions": [{"key": f"s{number}", "operator": "DoesNotExist"}]}}


def _hard_selectors(size: int) -> Object:
    return _pod(topologySpreadConstraints=[_spread(i, "zone", "DoNotSchedule", **_selected(i)) for i in range(size)])


def _soft_selectors(size: int) -> Object:
    return _pod(topologySpreadConstraints=[_spread(i, "zone", "ScheduleAnyway", **_selected(i)) for i in range(size)])


def _term(key: str, number: int) -> Object:
    return {"topologyKey": key, **_selected(number), "namespaces": [f"n{number}", "default"]}


def _between(field: str, size: int, *, same_key: bool) -> Object:
    terms = [_term("zone" if same_key else f"k{i}", i) for i in range(size)]
    return _pod(affinity={field: {_REQUIRED: terms}})


def _wishes(field: str, size: int, *, same_key: bool) -> Object:
    terms = [{"weight": 1, "podAffinityTerm": _term("zone" if same_key else f"k{i}", i)} for i in range(size)]
    return _pod(affinity={field: {_PREFERRED: terms}})


def _namespaces(size: int) -> Object:
    term = {"topologyKey": "zone", "labelSelector": _SELECTOR, "namespaces": [f"n{i}" for i in range(size)]}
    return _pod(affinity={"podAntiAffinity": {_REQUIRED: [term]}})


def _namespace_selectors(size: int) -> Object:
    terms = [
        {"topologyKey": "zone", "labelSelector": _SELECTOR, "namespaceSelector": {"matchLabels": {"a": f"v{i}"}}}
        for i in range(size)
    ]
    return _pod(affinity={"podAntiAffinity": {_REQUIRED: terms}})


def _expressions(size: int) -> Object:
    wanted = [{"key": f"k{i}", "operator": "NotIn", "values": ["x"]} for i in range(size)]
    return _pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}})


def _expression_values(size: int) -> Object:
    wanted = [{"key": "zone", "operator": "NotIn", "values": [f"x{i}" for i in range(size)]}]
    return _pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}})


def _node_terms(size: int) -> Object:
    terms = [{"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(size)]
    return _pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def _node_names(size: int) -> Object:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{i}"]}]} for i in range(size)]
    return _pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def _preferred_nodes(size: int) -> Object:
    terms = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]}} for i in range(size)
    ]
    return _pod(affinity={"nodeAffinity": {_PREFERRED: terms}})


def _selected_labels(size: int) -> Object:
    return _pod(nodeSelector={f"k{i}": "v" for i in range(size)})


def _tolerations(size: int) -> Object:
    return _pod(tolerations=[{"key": f"k{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(size)])


def _container(number: int, **more: Any) -> Object:
    return {"name": f"c{number}", "image": f"image-{number}", "resources": {"requests": {"cpu": "1m"}}} | more


def _containers(size: int) -> Object:
    return _pod(containers=[_container(i) for i in range(size)])


def _init_containers(size: int) -> Object:
    return _pod(initContainers=[_container(i, restartPolicy="Always") for i in range(size)])


def _ports(size: int) -> Object:
    ports = [{"hostPort": 1 + i % 65_000, "hostIP": f"10.0.0.{i // 65_000}", "containerPort": 1} for i in range(size)]
    return _pod(containers=[_container(0, ports=ports)])


def _port_addresses(size: int) -> Object:
    ports = [{"hostPort": 80, "hostIP": f"10.0.{i // 250}.{i % 250}", "containerPort": 1} for i in range(size)]
    return _pod(containers=[_container(0, ports=ports)])


def _resources(size: int) -> Object:
    requests = {f"example.com/r{i}": "1" for i in range(size)}
    return _pod(containers=[_container(0, resources={"requests": requests})])


def _claims(size: int) -> Object:
    return _pod(volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(size)])


def _same_claims(size: int) -> Object:
    return _pod(volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": "c"}} for i in range(size)])


def _ephemeral(size: int) -> Object:
    return _pod(volumes=[{"name": f"v{i}", "ephemeral": {"volumeClaimTemplate": {}}} for i in range(size)])


def _inline(size: int) -> Object:
    return _pod(volumes=[{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(size)])


def _gates(size: int) -> Object:
    return _pod(schedulingGates=[{"name": f"g{i}"} for i in range(size)])


def _labels(size: int) -> Object:
    pod = _pod()
    pod["metadata"]["labels"] = {f"l{i}": "v" for i in range(size)}
    return pod


def _owners(size: int) -> Object:
    pod = _pod()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    pod["metadata"]["ownerReferences"] = [{**reference, "uid": f"u{i}"} for i in range(size)]
    return pod


def _conditions(size: int) -> Object:
    return _pod(status={"conditions": [{"type": f"t{i}", "status": "True"} for i in range(size)]})


def other_disks(pod: Object) -> Object:
    """The volumes of such a pod with other inline disks."""
    volumes = pod["spec"].get("volumes") or []
    if not volumes or "gcePersistentDisk" not in volumes[0]:
        return {}
    return {
        "volumes": [
            {"name": each["name"], "gcePersistentDisk": {"pdName": f"other-{each['gcePersistentDisk']['pdName']}"}}
            for each in volumes
        ]
    }


SIZED: dict[str, tuple[int, Make]] = {
    "hard spread constraints, each with its topology": (32, _hard_keys),
    "soft spread constraints, each with its topology": (32, _soft_keys),
    "hard spread constraints, each with its selector": (26, _hard_selectors),
    "soft spread constraints, each with its selector": (26, _soft_selectors),
    "required affinity to pods, one topology": (34, lambda size: _between("podAffinity", size, same_key=True)),
    "required affinity to pods, each with its topology": (
        34,
        lambda size: _between("podAffinity", size, same_key=False),
    ),
    "required anti-affinity, one topology": (34, lambda size: _between("podAntiAffinity", size, same_key=True)),
    "required anti-affinity, each with its topology": (
        34,
        lambda size: _between("podAntiAffinity", size, same_key=False),
    ),
    "preferred affinity to pods, one topology": (28, lambda size: _wishes("podAffinity", size, same_key=True)),
    "preferred anti-affinity, each with its topology": (
        28,
        lambda size: _wishes("podAntiAffinity", size, same_key=False),
    ),
    "namespaces of one term": (600, _namespaces),
    "terms with a namespace selector": (40, _namespace_selectors),
    "node affinity expressions": (100, _expressions),
    "values of a node affinity expression": (600, _expression_values),
    "node affinity terms": (80, _node_terms),
    "node names": (60, _node_names),
    "preferred node affinity terms": (55, _preferred_nodes),
    "entries of the node selector": (500, _selected_labels),
    "tolerations": (80, _tolerations),
    "containers": (70, _containers),
    "init containers": (55, _init_containers),
    "host ports": (80, _ports),
    "addresses of one host port": (80, _port_addresses),
    "kinds of resource": (180, _resources),
    "volume claims": (90, _claims),
    "volumes of one claim": (90, _same_claims),
    "ephemeral volumes": (80, _ephemeral),
    "inline disks": (100, _inline),
    "scheduling gates": (1_000, _gates),
    "labels": (1_000, _labels),
    "owners": (1_000, _owners),
    "conditions": (1_000, _conditions),
}
