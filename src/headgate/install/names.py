"""Names and labels of the objects of an installation.

The names are fixed: the webhook configurations and the Leases exist once per cluster, so a second installation would
only fight with the first one. ``manifests.py`` lists the objects.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.install.template import Setting, Tree

Object = dict[str, Any]

NAME: Final = "headgate"
"""Of the Deployment, the ServiceAccount, the Service of the webhooks, and most others."""
METRICS_SERVICE: Final = "headgate-metrics"
METRICS_READER: Final = "headgate-metrics-reader"
METRICS_TOKEN: Final = "headgate-metrics-token"
CONFIGURATION: Final = "headgate-configuration"
CONFIGURATION_FILE: Final = "headgate.yaml"
CONFIGURATION_HASH: Final = "headgate.dev/configuration-sha256"
"""The annotation of the pods with the hash of their configuration file."""
DASHBOARD: Final = "headgate-dashboard"
"""Of the ConfigMap with Grafana's dashboard, and of the Deployment, ServiceAccount and Service of the live page."""
FIELD_MANAGER: Final = "headgate-install"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"
"""The label by which uninstallation finds the objects of an installation, whichever program manages them."""
INSTANCE: Final = "app.kubernetes.io/instance"
"""The label by which an installation finds the objects that it made with other options (``pruning.py``)."""
NAMESPACE: Final = Setting("$namespace")
SELECTOR: Final[Object] = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "manager"}
"""Selects the pods of the Deployment, not those of hooks and tests."""
WEBHOOK_STATE: Final = "headgate.dev/webhooks"
"""The annotation of the Secret of the webhooks. Its value ``removed`` tells running replicas not to restore what
uninstallation deletes (``runtime/webhooks/registrar.py``)."""
REGISTERED: Final = "registered"
REMOVED: Final = "removed"
WEBHOOK_COMPONENTS: Final = ("jobs", "webhooks")
"""The components that have entries in the webhook configurations."""
_SUFFIXES: Final = ((".jobs.headgate.dev", "jobs"), (".headgate.dev", "webhooks"))
"""The component of an entry, by the end of its name, as in ``runtime/webhooks/configurations.py``. The first
match counts."""


def entry_component(name: str) -> str:
    """The component of an entry of a webhook configuration by its name; empty if it is not Headgate's."""
    return next((component for suffix, component in _SUFFIXES if name.endswith(suffix)), "")


def labels(component: str = "") -> dict[str, Tree]:
    """The labels of an object."""
    return {
        "app.kubernetes.io/name": NAME,
        **({"app.kubernetes.io/component": component} if component else {}),
        PART_OF: NAME,
        "app.kubernetes.io/version": Setting("$version"),
        MANAGED_BY: Setting("$managedBy"),
        INSTANCE: Setting("$instance"),
    }


def metadata(name: str, namespace: Tree = None, **more: Tree) -> dict[str, Tree]:
    """Metadata with the labels; ``namespace``: None for a cluster-scoped object."""
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "labels": labels(), **more}
