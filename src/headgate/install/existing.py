"""Finds the installation that a cluster has already, in whichever namespace: there is one per cluster.

ClusterRoleBindings of the components name its ServiceAccount, and webhook configurations its Service. ``headgate
install`` and ``headgate uninstall`` look here before they write anything, because the names of cluster-wide objects
are fixed: with another namespace they would change, or delete, the objects of the existing installation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import ACCEPT
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.install.applying import decode, refusal, release_of
from headgate.install.kinds import path_of
from headgate.install.names import NAME, entry_component
from headgate.install.rights import COMPONENT_BINDINGS, CONFIGURATION_NAME

Object = dict[str, Any]

_NOT_FOUND: Final = 404
_CONFIGURATIONS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class ExistingInstallation(msgspec.Struct, frozen=True):
    """``release``: the release of Helm that manages it; empty if Helm does not."""

    namespace: str
    release: str = ""

    @property
    def removal(self) -> str:
        """The command that removes it."""
        if self.release:
            return f"helm uninstall {self.release} --namespace {self.namespace}"
        return f"headgate uninstall --namespace {self.namespace}"

    @property
    def conflict(self) -> str:
        """Why no other namespace can have an installation, and what to do."""
        manager = f"by the Helm release {self.release} " if self.release else ""
        change = (
            f"helm upgrade {self.release} --namespace {self.namespace}"
            if self.release
            else f"headgate install --namespace {self.namespace} --apply"
        )
        return (
            f"Headgate is installed {manager}in namespace {self.namespace}, and a cluster has one installation; "
            f"to change it, run: {change}; to move it, first run: {self.removal}"
        )


class UnknownInstallation(msgspec.Struct, frozen=True):
    """Whether there is an installation cannot be read. ``text``: why."""

    text: str


def existing_installations() -> Generator[
    DelayedRequest, HTTPResponse, list[ExistingInstallation] | UnknownInstallation
]:
    """One for each namespace that an object of Headgate refers to: at most one, unless an installation was changed by
    hand or by an earlier release of this program."""
    found: dict[str, ExistingInstallation] = {}
    bindings: list[Object] = [{"kind": "ClusterRoleBinding", "metadata": {"name": name}} for name in COMPONENT_BINDINGS]
    configurations: list[Object] = [
        {"kind": kind, "metadata": {"name": CONFIGURATION_NAME}} for kind in _CONFIGURATIONS
    ]
    for obj in (*bindings, *configurations):
        response = yield DelayedRequest(HTTPRequest("GET", path_of(obj), "", ACCEPT))
        if response.status == _NOT_FOUND:
            continue
        if not response.ok:
            return UnknownInstallation(refusal(response, "get", obj))
        live = decode(response)
        for namespace in _accounts(live) if obj in bindings else _services(live):
            release = release_of(live) or (found[namespace].release if namespace in found else "")
            found[namespace] = ExistingInstallation(namespace, release)
    return list(found.values())


def being_deleted(objects: Iterable[Object]) -> Generator[DelayedRequest, HTTPResponse, list[Object]]:
    """Those of the objects whose existing ones are being deleted."""
    found: list[Object] = []
    for obj in objects:
        response = yield DelayedRequest(HTTPRequest("GET", path_of(obj), "", ACCEPT))
        if response.ok and decode(response)["metadata"].get("deletionTimestamp"):
            found.append(obj)
    return found


def elsewhere(found: Iterable[ExistingInstallation], namespace: str) -> list[ExistingInstallation]:
    """Those in other namespaces than this one."""
    return [each for each in found if each.namespace != namespace]


def _accounts(binding: Object) -> list[str]:
    """The namespaces of the ServiceAccounts of Headgate that the role is bound to."""
    return [
        each["namespace"]
        for each in binding.get("subjects") or ()
        if each.get("kind") == "ServiceAccount" and each.get("name") == NAME and each.get("namespace")
    ]


def _services(configuration: Object) -> list[str]:
    """The namespaces of the Services that Headgate's webhooks are called through; none if they have a URL."""
    entries = [each for each in configuration.get("webhooks") or () if entry_component(str(each.get("name")))]
    services = ((each.get("clientConfig") or {}).get("service") or {} for each in entries)
    return list(dict.fromkeys(each["namespace"] for each in services if each.get("namespace")))
