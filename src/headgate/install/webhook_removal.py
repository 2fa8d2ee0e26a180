"""Removes the webhooks while the processes that serve them still run, so that no call of a webhook fails.

An annotation of the Secret tells the running replicas not to restore the webhooks. Entries are removed from the webhook
configurations, and CustomResourceDefinitions no longer use the conversion webhook.

``uninstalling.py`` removes all webhooks, ``pruning.py`` those of components that are no longer installed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from headgate.client.write_requests import delete, patch, update
from headgate.install.applying import is_of_headgate
from headgate.install.kinds import MUTATING, SECRETS, VALIDATING
from headgate.install.manifests import EVERYTHING, needed_definitions
from headgate.install.names import MANAGED_BY, NAME, REMOVED, WEBHOOK_COMPONENTS, WEBHOOK_STATE, entry_component
from headgate.install.rights import CONFIGURATION_NAME, SECRET_NAME
from headgate.install.uninstall_steps import UninstallError, UninstallSteps, read, read_items, write
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.kube.crd_builder import is_installed_by_headgate
from headgate.quota.kinds.names import OLDER

Object = dict[str, Any]

CONFIGURATIONS: Final = (MUTATING, VALIDATING)
_CONFLICT: Final = 409
_ATTEMPTS: Final = 5


def own_definitions() -> UninstallSteps[dict[str, Object | None]]:
    """The CRDs of the queues by name: the object if Headgate installed it, None if another program did."""
    names = {each["metadata"]["name"] for each in needed_definitions(EVERYTHING)}
    found = yield from read_items(CUSTOM_RESOURCE_DEFINITIONS.collection_path())
    return {
        each["metadata"]["name"]: each if is_installed_by_headgate(each) else None
        for each in found
        if each["metadata"]["name"] in names
    }


def mark_removed(namespace: str, *, dry_run: bool) -> UninstallSteps[None]:
    secret = yield from read(SECRETS.object_path(namespace, SECRET_NAME))
    if secret is None or not is_of_headgate(secret):
        return
    if (secret["metadata"].get("annotations") or {}).get(WEBHOOK_STATE) != REMOVED:
        body = {"metadata": {"annotations": {WEBHOOK_STATE: REMOVED}}}
        request = patch(SECRETS, namespace, SECRET_NAME, secret["metadata"]["uid"], body)
        yield from write(request, f"secret/{SECRET_NAME} marked: webhooks are not restored", dry_run)


def end_conversion(name: str, *, dry_run: bool) -> UninstallSteps[None]:
    """Removes the conversion webhook from the definition. Its older version, v1beta1, is then not served, because
    fields would be lost without conversion."""
    for _ in range(_ATTEMPTS):
        found = yield from read(CUSTOM_RESOURCE_DEFINITIONS.object_path("", name))
        if found is None:
            return
        versions = [{**each, "served": each["name"] != OLDER} for each in found["spec"]["versions"]]
        spec = {**found["spec"], "conversion": {"strategy": "None"}, "versions": versions}
        request = update(CUSTOM_RESOURCE_DEFINITIONS, "", name, {**found, "spec": spec})
        line = f"customresourcedefinition.apiextensions.k8s.io/{name} is no longer converted by the webhook"
        if (yield from write(request, line, dry_run, accepted=(_CONFLICT,))) != _CONFLICT:
            return
    raise UninstallError(f"CustomResourceDefinition {name} is changed by another client all the time; try again")


def converts_in(definition: Object, namespace: str) -> bool:
    """Whether the Service of the installation in this namespace converts the versions of the definition."""
    conversion = definition["spec"].get("conversion") or {}
    return _is_service_of(namespace, (conversion.get("webhook") or {}).get("clientConfig"))


def converted_definitions(namespace: str) -> UninstallSteps[list[str]]:
    """The names of the CRDs of the queues whose versions an installation converts: those that Headgate installed, and
    those that call the Service of this installation, whatever their labels say now."""
    names = {each["metadata"]["name"] for each in needed_definitions(EVERYTHING)}
    found = yield from read_items(CUSTOM_RESOURCE_DEFINITIONS.collection_path())
    return [
        each["metadata"]["name"]
        for each in found
        if each["metadata"]["name"] in names
        and (each["spec"].get("conversion") or {}).get("strategy") == "Webhook"
        and (is_installed_by_headgate(each) or converts_in(each, namespace))
    ]


def remove_entries(*, dry_run: bool) -> UninstallSteps[None]:
    """Removes all entries of Headgate, whatever labels their configuration has: without the processes that answer them,
    the API server refuses what they select. Entries of other programs stay. A configuration is deleted if replicas of
    Headgate created it and no entry is left."""
    for resource in CONFIGURATIONS:
        yield from _remove_entries(resource, dry_run)


def _remove_entries(resource: APIResource, dry_run: bool) -> UninstallSteps[None]:
    named = f"{singular(resource)}/{CONFIGURATION_NAME}"
    for _ in range(_ATTEMPTS):
        found = yield from read(resource.object_path("", CONFIGURATION_NAME))
        entries = [] if found is None else found.get("webhooks") or []
        kept = [each for each in entries if not entry_component(str(each.get("name")))]
        is_own = found is not None and (found["metadata"].get("labels") or {}).get(MANAGED_BY) == NAME
        if found is None or (len(kept) == len(entries) and (kept or not is_own)):
            return
        if is_own and not kept:
            read_version = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
            request = delete(resource, "", CONFIGURATION_NAME, "", {"preconditions": read_version})
            line = f"{named} deleted"
        else:
            request = update(resource, "", CONFIGURATION_NAME, _with_entries(found, kept, WEBHOOK_COMPONENTS))
            names = ", ".join(str(each.get("name")) for each in kept)
            reason = f"it has entries of other programs: {names}" if kept else f"it has no label {MANAGED_BY}={NAME}"
            line = f"{named} has no entries of Headgate any more; kept: {reason}"
        if (yield from write(request, line, dry_run, accepted=(_CONFLICT,))) != _CONFLICT:
            return
    raise UninstallError(f"{named} is changed by another client all the time; run the command again")


def withdraw_entries(namespace: str, components: Collection[str], *, dry_run: bool) -> UninstallSteps[None]:
    """Removes the entries of these components that call the Service of this installation. Entries of other programs,
    and of replicas outside the installation, stay; a configuration without entries is deleted."""
    for resource in CONFIGURATIONS:
        for attempt in range(_ATTEMPTS):
            found = yield from read(resource.object_path("", CONFIGURATION_NAME))
            entries = [] if found is None else found.get("webhooks") or []
            kept = [each for each in entries if not _is_entry_of(each, namespace, components)]
            if found is None or len(kept) == len(entries):
                break
            labels = found["metadata"].get("labels") or {}
            if not kept and labels.get(MANAGED_BY) == NAME:
                request = delete(resource, "", CONFIGURATION_NAME, found["metadata"]["uid"])
                line = f"{singular(resource)}/{CONFIGURATION_NAME} deleted"
            else:
                request = update(resource, "", CONFIGURATION_NAME, _with_entries(found, kept, components))
                line = f"{singular(resource)}/{CONFIGURATION_NAME} has no entries of {', '.join(components)} any more"
            if (yield from write(request, line, dry_run, accepted=(_CONFLICT,))) != _CONFLICT:
                break
            if attempt == _ATTEMPTS - 1:
                text = f"{singular(resource)}/{CONFIGURATION_NAME} is changed by another client all the time"
                raise UninstallError(f"{text}; run the command again")


def _with_entries(found: Object, entries: list[Object], components: Collection[str]) -> Object:
    """The configuration with these entries only. The annotations in which replicas record the settings of the
    components are removed."""
    settings = {f"headgate.dev/settings-of-{each}" for each in components}
    annotations = {
        key: value for key, value in (found["metadata"].get("annotations") or {}).items() if key not in settings
    }
    return {**found, "metadata": {**found["metadata"], "annotations": annotations}, "webhooks": entries}


def _is_entry_of(entry: Object, namespace: str, components: Collection[str]) -> bool:
    return entry_component(str(entry.get("name"))) in components and _is_service_of(
        namespace, entry.get("clientConfig")
    )


def _is_service_of(namespace: str, client: Object | None) -> bool:
    service = (client or {}).get("service") or {}
    return (service.get("namespace"), service.get("name")) == (namespace, NAME)


def singular(resource: APIResource) -> str:
    """As kubectl names an object of it."""
    group = f".{resource.group}" if resource.group else ""
    return resource.plural.removesuffix("s") + group
