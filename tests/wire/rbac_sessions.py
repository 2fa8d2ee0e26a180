"""kubectl sessions about rights: granting them, querying them, using tokens, and impersonation."""

from __future__ import annotations

from harness.kubectl_session import Scripted, k
from harness.users import ALICE, BOB

YAML = "-o yaml"
AS_ALICE = f"--token={ALICE}"
AS_BOB = f"--token={BOB}"


def sorted_lines(output: str) -> str:
    """A user's rules come in the order of a Go map."""
    return "\n".join(sorted(output.splitlines()))


ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reconciled", "namespace": "{ns}"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "reconciled", "namespace": "{ns}"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reconciled"},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
}
MORE = {**ROLE, "rules": [*ROLE["rules"], {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}

GRANTING: dict[str, list[Scripted]] = {
    "who one is": [
        k(f"auth whoami {AS_ALICE}"),
        k(f"auth whoami {AS_BOB} -o yaml"),
        k("auth whoami --as=carol --as-group=a --as-group=b --as-uid=7 --as-user-extra=scopes=view"),
        k("auth whoami --as=system:serviceaccount:{ns}:robot -o json"),
        k("auth whoami --token=wrong"),
    ],
    "what one may": [
        k(f"auth can-i get pods {AS_ALICE}"),
        k("create role r --verb=get,list --resource=pods,configmaps"),
        k("create rolebinding b --role=r --user=alice --group=readers --serviceaccount={ns}:robot"),
        k(f"get role,rolebinding {YAML}"),
        k("describe rolebinding b"),
        k("wait role/r --for=jsonpath='{.metadata.name}'=r --timeout=5s"),
        k(f"get pods {AS_ALICE} --request-timeout=5s"),
        k(f"auth can-i get pods {AS_ALICE}"),
        k(f"auth can-i get pods {AS_BOB}"),
        k(f"auth can-i delete pods {AS_ALICE}"),
        k(f"auth can-i get pods/log {AS_ALICE}"),
        k(f"auth can-i get /healthz {AS_ALICE}"),
        k(f"auth can-i get /odd {AS_ALICE}"),
        k(f"auth can-i get pods --all-namespaces {AS_ALICE}"),
        k("auth can-i get pods --as=system:serviceaccount:{ns}:robot"),
        k("auth can-i '*' '*'"),
        k(f"auth can-i --list {AS_ALICE}", only=sorted_lines),
        k(f"delete pod none {AS_ALICE}"),
        k(f"get nodes {AS_ALICE}"),
        k(f"create configmap c {AS_ALICE}"),
        k("create clusterrole {ns} --verb=get --resource=nodes"),
        k("create clusterrolebinding {ns} --clusterrole={ns} --user=alice"),
        k("delete clusterrole,clusterrolebinding {ns}"),
    ],
    "roles reconciled": [
        k("auth reconcile -f -", [ROLE, BINDING]),
        k("auth reconcile -f -", [MORE, BINDING]),
        k(f"get role reconciled {YAML}"),
        k("auth reconcile -f - --remove-extra-permissions", [ROLE]),
        k(f"get role reconciled {YAML}"),
        k(f"auth reconcile -f - {AS_ALICE}", [ROLE]),
    ],
    "tokens": [
        k("create serviceaccount robot"),
        k("create token robot"),
        k("create token robot --duration=1s"),
        k("create token robot --duration=20m --audience=a --audience=b -o yaml"),
        k("create token none"),
        k("create secret generic s"),
        k("create token robot --bound-object-kind=Secret --bound-object-name=s"),
        k("create token robot --bound-object-kind=Pod --bound-object-name=none"),
        k("create token robot --bound-object-kind=ConfigMap --bound-object-name=none"),
        k(f"create token robot {AS_ALICE}"),
    ],
}
