"""Which users may read metrics over TLS (``metrics.secure``), and how Headgate asks the API server about it.

The pods get the right to ask (TokenReview, SubjectAccessReview). One more ServiceAccount may read ``/metrics`` and
nothing else; its token is in a Secret, from which PodMonitor and ServiceMonitor take it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headgate.install.names import METRICS_READER, METRICS_TOKEN, NAME, NAMESPACE, metadata
from headgate.install.rights import COMPONENT_ROLE, METRICS_RULES
from headgate.install.roles import cluster_role_and_binding, roles_and_bindings
from headgate.install.template import TemplateObject, Tree, when

_SECURE: Final = when("metrics.secure")


def metrics_access() -> Iterator[TemplateObject]:
    for body in roles_and_bindings(f"{COMPONENT_ROLE}-metrics", METRICS_RULES, NAME):
        yield TemplateObject(body, _SECURE)
    account: dict[str, Tree] = {"apiVersion": "v1", "kind": "ServiceAccount"}
    yield TemplateObject({**account, "metadata": metadata(METRICS_READER, NAMESPACE)}, _SECURE)
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    for body in cluster_role_and_binding(METRICS_READER, rules, METRICS_READER):
        yield TemplateObject(body, _SECURE)
    annotations = {"kubernetes.io/service-account.name": METRICS_READER}
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(METRICS_TOKEN, NAMESPACE, annotations=annotations),
        "type": "kubernetes.io/service-account-token",
    }
    yield TemplateObject(token, _SECURE)
