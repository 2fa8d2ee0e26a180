"""The hooks of the Helm chart: the preparation of ``helm uninstall``, and ``helm test``.

Both have service accounts of their own, which exist only while they run.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.install.deployment import container, placement
from headgate.install.names import NAME, NAMESPACE, labels, metadata
from headgate.install.rights import STATUS_RULES, UNINSTALL_RULES, RightRule
from headgate.install.roles import roles_and_bindings
from headgate.install.template import Condition, Setting, TemplateObject, When, text, when

Object = dict[str, Any]

UNINSTALL: Final = f"{NAME}-uninstall"
TEST: Final = f"{NAME}-test"
_TIME_LIMIT_S: Final = 300
_STATUS_PATIENCE_S: Final = 60
"""After an upgrade a new leader may have to wait for the end of a Lease."""


def uninstall_hook() -> tuple[TemplateObject, ...]:
    """``helm uninstall`` waits until the webhooks are gone, the pods stopped, and everything that waits is released."""
    keeps = Condition(("uninstall.liftGates",), negated=True)
    arguments = ["uninstall", "--prepare", text("--namespace=", NAMESPACE), When(keeps, "--keep-gates")]
    pod = {"serviceAccountName": UNINSTALL, "restartPolicy": "Never", **placement()}
    spec = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": _TIME_LIMIT_S,
        "template": {
            "metadata": {"labels": labels("uninstall")},
            "spec": {**pod, "containers": [container("headgate", arguments)]},
        },
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(UNINSTALL, NAMESPACE, annotations=_hook("pre-delete", 5)),
        "spec": spec,
    }
    condition = when("uninstall.hook")
    objects = [*_account(UNINSTALL, UNINSTALL_RULES, "pre-delete"), job]
    return tuple(TemplateObject(each, condition) for each in objects)


def status_hook() -> tuple[TemplateObject, ...]:
    """``helm test`` runs ``headgate install --status``."""
    arguments = [
        "install",
        "--status",
        f"--wait={_STATUS_PATIENCE_S}",
        text("--namespace=", NAMESPACE),
        text("--components=", Setting("$components")),
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": TEST,
            "namespace": NAMESPACE,
            "labels": labels("test"),
            "annotations": _hook("test", 5),
        },
        "spec": {
            "serviceAccountName": TEST,
            "restartPolicy": "Never",
            **placement(),
            "containers": [container("headgate", arguments)],
        },
    }
    return tuple(TemplateObject(each) for each in (*_account(TEST, STATUS_RULES, "test"), pod))


def _account(name: str, rules: tuple[RightRule, ...], hook: str) -> list[Object]:
    annotations = _hook(hook, 0)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(name, NAMESPACE, annotations=annotations),
    }
    return [account, *roles_and_bindings(name, rules, name, annotations=annotations)]


def _hook(hook: str, weight: int) -> Object:
    # The pod of a test stays until the next test, so that its log can be read.
    policy = "before-hook-creation,hook-succeeded" + ("" if hook == "test" else ",hook-failed")
    return {"helm.sh/hook": hook, "helm.sh/hook-weight": str(weight), "helm.sh/hook-delete-policy": policy}
