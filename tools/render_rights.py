#!/usr/bin/env python3
"""Renders `examples/*-rights.yaml` of the components from the table of rights: `python tools/render_rights.py`.

They are for processes that run outside `headgate install`, each with a service account of its own. Every rule has the
scenario that needs it as a comment. A test compares the files with a fresh rendering.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headgate.install.options import NAMESPACE
from headgate.install.rights import LEASE_NAMESPACE, RULES, RightRule, RightScope

Object = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MADE = "# Written by tools/render_rights.py from the table in src/headgate/install/rights.py."


class RightsFile(NamedTuple):
    """`components`: whose rights the account gets. `comment`: the head of the file. `bound`: components of other files
    whose roles are bound to the account."""

    comment: str
    account: str
    namespace: str
    components: tuple[str, ...]
    has_namespace: bool = False
    more: tuple[Object, ...] = ()
    bound: tuple[str, ...] = ()


ROLE_NAMES = {"gates": "headgate-gate-controller"}
"""Where it is not `headgate-COMPONENT`: gates-rights.yaml has a role `headgate-gates` for people."""

_SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "headgate", "namespace": NAMESPACE},
    "spec": {
        "selector": {"app.kubernetes.io/name": "headgate-webhooks"},
        "ports": [{"name": "webhooks", "port": 443, "targetPort": 9443}],
    },
}

FILES = {
    "scheduler-rights.yaml": RightsFile(
        "A service account with the rights that `headgate run` needs, for a scheduler that runs outside\n"
        "`headgate install`. The webhooks have their own: webhook-rights.yaml. If a KubeSchedulerConfiguration names\n"
        "another Lease, name it here, too.",
        "headgate-scheduler",
        LEASE_NAMESPACE,
        ("scheduler",),
    ),
    "webhook-rights.yaml": RightsFile(
        "A service account with the rights that `headgate run --components webhooks` needs, its namespace, and the\n"
        "Service by which API servers reach it (`--webhook-service headgate-system/headgate`): label the pods of the\n"
        "webhooks as its selector says. Add your own kinds of jobs (`--job-kinds`) where the Jobs are.",
        "headgate",
        NAMESPACE,
        ("webhooks",),
        has_namespace=True,
        more=(_SERVICE,),
    ),
    "quota-rights.yaml": RightsFile(
        "A service account with the rights that `headgate run --components quota,jobs` needs. The webhooks have their\n"
        "own: webhook-rights.yaml. Add your own kinds of jobs (`--job-kinds`) where the Jobs are.",
        "headgate-quota",
        LEASE_NAMESPACE,
        ("quota", "jobs"),
    ),
    "gates-only-rights.yaml": RightsFile(
        "A service account with the rights that `headgate run --components gates,webhooks` needs: pods are counted\n"
        "and ungated, and nothing is bound or deleted. Apply webhook-rights.yaml first: it has the namespace and the\n"
        "roles of the webhooks.",
        "headgate-gates-only",
        NAMESPACE,
        ("gates",),
        bound=("webhooks",),
    ),
}
COMBINED = (
    "For one process that runs several components, such as `headgate run --components scheduler,webhooks` or\n"
    "`--components webhooks,quota,jobs`: it works as the service account of the webhooks (webhook-rights.yaml), which\n"
    "gets the roles of scheduler-rights.yaml and of quota-rights.yaml here. Apply those first, and leave out what it\n"
    "does not run."
)


def render() -> dict[str, str]:
    """The files, by their names."""
    files = {name: _file(each) for name, each in FILES.items()}
    bindings = (
        _binding(f"headgate-combined-{component}", f"headgate-{component}", namespace, "headgate", NAMESPACE)
        for component in ("scheduler", "quota", "jobs")
        for namespace in ("", LEASE_NAMESPACE)
    )
    files["combined-rights.yaml"] = _comment(COMBINED) + "\n---\n".join(map(_yaml, bindings)) + "\n"
    return files


def _file(each: RightsFile) -> str:
    account = {"name": each.account, "namespace": each.namespace}
    documents: list[str] = []
    if each.has_namespace:
        documents.append(_yaml({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each.namespace}}))
    documents.append(_yaml({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}))
    for component in each.components:
        name = _role_name(component)
        for namespace, rules in _rules_by_namespace(component):
            documents.append(_role(name, namespace, rules))
            documents.append(_yaml(_binding(name, name, namespace, each.account, each.namespace)))
    for component in each.bound:
        name = f"{each.account}-{component}"
        for namespace, _ in _rules_by_namespace(component):
            binding = _binding(name, _role_name(component), namespace, each.account, each.namespace)
            documents.append(_yaml(binding))
    documents += map(_yaml, each.more)
    return _comment(each.comment) + "\n---\n".join(documents) + "\n"


def _role_name(component: str) -> str:
    return ROLE_NAMES.get(component, f"headgate-{component}")


def _rules_by_namespace(component: str) -> Iterator[tuple[str, list[RightRule]]]:
    """The rules of each role of a component; the namespace is empty for a ClusterRole."""
    for scope, namespace in (
        (RightScope.CLUSTER, ""),
        (RightScope.OWN_NAMESPACE, NAMESPACE),
        (RightScope.LEASE_NAMESPACE, LEASE_NAMESPACE),
    ):
        rules = [rule for rule in RULES[component] if rule.scope is scope]
        if rules:
            yield namespace, rules


def _role(name: str, namespace: str, rules: Iterable[RightRule]) -> str:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = "Role" if namespace else "ClusterRole"
    head = _yaml({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta})
    return "\n".join([head, "rules:", *(line for rule in rules for line in _rule(rule))])


def _rule(rule: RightRule) -> Iterator[str]:
    yield f"  # {rule.reason}"
    yield f"  - apiGroups: [{_flow([rule.group])}]"
    yield from _names("resources", rule.resources)
    if rule.names:
        yield from _names("resourceNames", rule.names)
    yield f"    verbs: [{_flow(rule.verbs)}]"


def _names(key: str, names: Iterable[str]) -> Iterator[str]:
    line = f"    {key}: [{_flow(names)}]"
    if len(line) <= 120:
        yield line
        return
    yield f"    {key}:"
    yield from (f"      - {each}" for each in names)


def _flow(names: Iterable[str]) -> str:
    return ", ".join(each or '""' for each in names)


def _binding(name: str, role: str, namespace: str, account: str, account_namespace: str) -> Object:
    prefix = "" if namespace else "Cluster"
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": f"{prefix}Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }


def _yaml(document: Object) -> str:
    return yaml.safe_dump(document, sort_keys=False).rstrip("\n")


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.split("\n")) + f"{MADE}\n"


def main() -> int:
    for name, text in render().items():
        (EXAMPLES / name).write_text(text)
    print(f"{EXAMPLES}: {', '.join(render())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
