"""Affinity between pods as a slow, obvious reference: it examines every pod on every node for each pod and node.

It works on wire objects and shares only the matching of selectors with the plugin that it checks; selectors have tests
of their own. It has no state: the result depends only on the cluster as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from headgate.kube.labels import from_label_selector

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


class Cluster(NamedTuple):
    nodes: dict[str, Object]
    pods: dict[str, tuple[str, Object]]
    """By uid the node's name and the pod."""
    namespaces: dict[str, dict[str, str]]
    """Their labels."""


def required(pod: Object, kind: str) -> list[Object]:
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ())


def preferred(pod: Object, kind: str) -> list[Object]:
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(PREFERRED) or ())


def own_match(cluster: Cluster, owner: Object, term: Object, other: Object) -> bool:
    """Whether a term of the pod to be placed means a pod that is there."""
    names = set(term.get("namespaces") or ())
    selector = from_label_selector(term.get("namespaceSelector"))
    if not names and term.get("namespaceSelector") is None:
        names = {owner["metadata"]["namespace"]}
    names |= {name for name, labels in cluster.namespaces.items() if selector.matches(labels)}
    if other["metadata"]["namespace"] not in names and not selector.matches({}):
        return False
    return from_label_selector(term.get("labelSelector")).matches(other["metadata"]["labels"])


def carried_match(cluster: Cluster, owner: Object, term: Object, comer: Object) -> bool:
    """Whether a term of a pod that is there means the pod to be placed."""
    names = set(term.get("namespaces") or ())
    if not names and term.get("namespaceSelector") is None:
        names = {owner["metadata"]["namespace"]}
    namespace = comer["metadata"]["namespace"]
    labels = cluster.namespaces.get(namespace, {})
    if namespace not in names and not from_label_selector(term.get("namespaceSelector")).matches(labels):
        return False
    return from_label_selector(term.get("labelSelector")).matches(comer["metadata"]["labels"])


def there(cluster: Cluster) -> Iterator[tuple[dict[str, str], Object]]:
    """Every pod on a node, with the labels of that node."""
    for name, pod in cluster.pods.values():
        if name in cluster.nodes:
            yield cluster.nodes[name]["metadata"]["labels"], pod


def shares(term: Object, one: dict[str, str], other: dict[str, str]) -> bool:
    key = term["topologyKey"]
    return key in one and one[key] == other.get(key)


def reject(cluster: Cluster, pod: Object, node: Object) -> str | None:
    here = node["metadata"]["labels"]
    wanted = required(pod, "podAffinity")
    if wanted:
        friends = [
            (labels, other)
            for labels, other in there(cluster)
            if all(own_match(cluster, pod, term, other) for term in wanted)
        ]
        is_first = not any(term["topologyKey"] in labels for labels, _ in friends for term in wanted) and all(
            own_match(cluster, pod, term, pod) for term in wanted
        )
        for term in wanted:
            if term["topologyKey"] not in here:
                return AFFINITY
            if not is_first and not any(shares(term, here, labels) for labels, _ in friends):
                return AFFINITY
    for term in required(pod, "podAntiAffinity"):
        if any(shares(term, here, at) and own_match(cluster, pod, term, other) for at, other in there(cluster)):
            return ANTI
    for at, other in there(cluster):
        for term in required(other, "podAntiAffinity"):
            if shares(term, here, at) and carried_match(cluster, other, term, pod):
                return EXISTING
    return None


def raw_score(cluster: Cluster, pod: Object, node: Object, hard: int, ignore: bool) -> int:
    here = node["metadata"]["labels"]
    own = [(sign * each["weight"], each["podAffinityTerm"]) for kind, sign in SIGNS for each in preferred(pod, kind)]
    if ignore and not own:
        return 0
    total = 0
    for at, other in there(cluster):
        total += sum(weight for weight, term in own if shares(term, here, at) and own_match(cluster, pod, term, other))
        carried = [
            (sign * each["weight"], each["podAffinityTerm"]) for kind, sign in SIGNS for each in preferred(other, kind)
        ]
        carried += [(hard, term) for term in required(other, "podAffinity")]
        total += sum(
            weight for weight, term in carried if shares(term, here, at) and carried_match(cluster, other, term, pod)
        )
    return total


SIGNS = (("podAffinity", 1), ("podAntiAffinity", -1))


def scaled(raw: dict[str, int]) -> dict[str, int]:
    """From 0 to 100 among the nodes that will do."""
    least, most = min(raw.values()), max(raw.values())
    return {name: int(100.0 * ((each - least) / (most - least))) if most > least else 0 for name, each in raw.items()}
