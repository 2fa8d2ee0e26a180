"""The objects of an installation, in the order in which they are applied.

``install_templates`` has them with open places, for the Helm chart; ``install_objects`` fills in the options. The
CustomResourceDefinitions are apart: whether one is written depends on which program installed the existing one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

import headgate
from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.capacity.names import GROUP, OPT_IN, VERSION
from headgate.gate_policies.definitions import DEFINITION
from headgate.install.deployment import configuration, deployment, disruption_budget
from headgate.install.live_page import live_page
from headgate.install.metrics_access import metrics_access
from headgate.install.monitoring import dashboard, monitors
from headgate.install.names import FIELD_MANAGER, NAME, NAMESPACE, REGISTERED, WEBHOOK_STATE, labels, metadata
from headgate.install.networking import network_policy, services
from headgate.install.options import (
    ComponentOptions,
    DashboardOptions,
    GatePolicyOptions,
    InstallOptions,
    LivePageOptions,
    MetricsOptions,
    MonitoringOptions,
    MonitorOptions,
    RulesOptions,
)
from headgate.install.rights import SECRET_NAME
from headgate.install.roles import additional_role, component_roles, gate_policy_roles, user_roles
from headgate.install.template import Setting, TemplateObject, TemplateValues, When, resolve, when
from headgate.quota.kinds.definitions import definitions

Object = dict[str, Any]

_POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"


def install_templates() -> tuple[TemplateObject, ...]:
    """All objects that an installation may have, without the namespace and the definitions."""
    return tuple(_templates())


def _templates() -> Iterator[TemplateObject]:
    account = metadata(
        NAME, NAMESPACE, annotations=When(when("serviceAccount.annotations"), Setting("serviceAccount.annotations"))
    )
    yield TemplateObject({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    # The webhooks fill in the data. There is no type either: that of a Secret cannot be changed, and one that the
    # webhooks of version 0.2.0 created has the type kubernetes.io/tls.
    secret = metadata(SECRET_NAME, NAMESPACE, annotations={WEBHOOK_STATE: REGISTERED})
    yield TemplateObject({"apiVersion": "v1", "kind": "Secret", "metadata": secret}, when("components.webhooks"))
    yield from component_roles()
    yield from gate_policy_roles()
    yield from additional_role()
    yield from metrics_access()
    yield from user_roles()
    yield from services()
    yield network_policy()
    yield disruption_budget()
    yield configuration()
    yield deployment()
    yield from monitors()
    yield dashboard()
    yield from live_page()
    queue: Object = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Queue",
        "metadata": {"name": Setting("queue.name"), "labels": labels(), "annotations": {OPT_IN: "true"}},
        "spec": {"weight": 1, "capability": When(when("queue.capability"), Setting("queue.capability"))},
    }
    yield TemplateObject(queue, when("queue.name"))


def install_objects(options: InstallOptions, namespace: str) -> list[Object]:
    """The objects of an installation with these options, without the definitions."""
    values = template_values(options, namespace)
    return [
        namespace_object(namespace),
        *(resolve(each.body, values) for each in install_templates() if values.holds(each.condition)),
    ]


def is_manager(obj: Object) -> bool:
    """Whether it is the Deployment of the components; that of the page serves nothing that others need."""
    return bool(obj["kind"] == "Deployment" and obj["metadata"]["name"] == NAME)


def template_values(options: InstallOptions, namespace: str) -> TemplateValues:
    image = options.image
    tail = f"@{image.digest}" if image.digest else f":{image.tag or headgate.__version__}"
    computed = {
        "$namespace": namespace,
        "$version": headgate.__version__,
        "$image": image.repository + tail,
        "$components": ",".join(options.components.names()),
        "$managedBy": FIELD_MANAGER,
        "$instance": namespace,
    }
    return TemplateValues(msgspec.to_builtins(options), computed)


def namespace_object(namespace: str) -> Object:
    """Its pods must fulfil the Pod Security standard ``restricted``, except in a namespace of the system."""
    meta: Object = {"name": namespace}
    if not namespace.startswith("kube-"):
        meta["labels"] = {
            "app.kubernetes.io/part-of": NAME,
            "app.kubernetes.io/managed-by": FIELD_MANAGER,
            _POD_SECURITY: "restricted",
        }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def needed_definitions(options: InstallOptions) -> tuple[Object, ...]:
    """The definitions of the kinds that the components use."""
    if not options.crds.enabled:
        return ()
    names = set(options.components.names())
    volcano = DEFINITIONS if names & VOLCANO_COMPONENTS else ()
    kueue = definitions(with_older=False) if names & KUEUE_COMPONENTS else ()
    return (*volcano, *kueue, *((DEFINITION,) if options.gate_policies.enabled else ()))


VOLCANO_COMPONENTS: Final = frozenset({"scheduler", "gates", "webhooks"})
"""The components that use Queue and PodGroup."""
KUEUE_COMPONENTS: Final = frozenset({"quota", "jobs"})
"""The components that use the kinds of Kueue."""
EVERYTHING: Final = InstallOptions(
    components=ComponentOptions(gates=True),
    gate_policies=GatePolicyOptions(enabled=True),
    configuration={"takeover": False},
    additional_rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    metrics=MetricsOptions(secure=True),
    monitoring=MonitoringOptions(
        MonitorOptions(enabled=True),
        MonitorOptions(enabled=True),
        RulesOptions(enabled=True),
        DashboardOptions(enabled=True),
    ),
    dashboard=LivePageOptions(enabled=True),
)
"""All objects that any installation may have, except its queue, which is the user's."""
