"""Removes what an installation has from other options: objects and webhook entries that the present options do not
have.

An object is removed if an installation may have it, and if its labels say that `headgate install` made it for the
installation in this namespace. CustomResourceDefinitions, the namespace and queues stay: they hold data of users.

1. Before the new Deployment is applied: if the component webhooks goes, its webhooks are withdrawn, so that no write is
   refused for a webhook that does not answer.
2. After it, if there is something to remove: pods with other arguments are awaited, because they use what is removed
   and would restore it. Then entries and objects are removed, in the reverse order of their creation.

An object that the user may not read is named and stays.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.capacity.names import QUEUES
from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import ACCEPT, delete
from headgate.http.transport import HTTPRequest
from headgate.install.access_reviews import AccessRight, right_of
from headgate.install.component_change import components_of
from headgate.install.kinds import display_name, path_of, place_of, resource_of
from headgate.install.manifests import EVERYTHING, install_objects, is_manager
from headgate.install.names import FIELD_MANAGER, INSTANCE, MANAGED_BY, NAME, PART_OF
from headgate.install.options import InstallOptions
from headgate.install.uninstall_steps import (
    UninstallError,
    UninstallSteps,
    planned_writes,
    read,
    read_items,
    running_pods,
    without_refused_reads,
    write,
)
from headgate.install.webhook_removal import (
    CONFIGURATIONS,
    converts_in,
    end_conversion,
    mark_removed,
    own_definitions,
    singular,
    withdraw_entries,
)
from headgate.kube.api_resources import DEPLOYMENTS, PODS, SERVICES

Object = dict[str, Any]

_KEPT_KINDS: Final = ("Namespace", "CustomResourceDefinition", "Queue")
_PAUSE_S: Final = 0.5
_PATIENCE_S: Final = 120.0


class PrunePlan(msgspec.Struct, frozen=True):
    """``options``: those of the present installation. ``keeps_objects``: only webhook entries are removed, because
    nothing would answer them."""

    options: InstallOptions
    namespace: str
    keeps_objects: bool = False
    dry_run: bool = False

    @property
    def withdrawn(self) -> tuple[str, ...]:
        """The components whose webhook entries are removed."""
        names = self.options.components.names()
        if "webhooks" not in names:
            return ("webhooks", "jobs")
        return () if "jobs" in names else ("jobs",)


class LeftOver(msgspec.Struct, frozen=True):
    """``names``: what pruning removes or changes. ``queues``: what it keeps. ``unknown``: the rights without which the
    rest is not known."""

    names: list[str]
    queues: list[str]
    unknown: list[AccessRight]


def withdraw_webhooks(plan: PrunePlan) -> UninstallSteps[None]:
    """Before the Deployment is applied, if the component webhooks is not installed any more."""
    if "webhooks" in plan.options.components.names() or not (yield from _has_webhooks(plan.namespace)):
        return  # processes outside the installation may have webhooks of their own
    yield from mark_removed(plan.namespace, dry_run=plan.dry_run)
    yield from withdraw_entries(plan.namespace, plan.withdrawn, dry_run=plan.dry_run)
    for name, definition in (yield from own_definitions()).items():
        if definition is not None and converts_in(definition, plan.namespace):
            yield from end_conversion(name, dry_run=plan.dry_run)


def _has_webhooks(namespace: str) -> UninstallSteps[bool]:
    """Whether the existing installation serves webhooks. Its Secret does not tell: replicas that create it again do not
    set the labels of the installation."""
    service = yield from read(SERVICES.object_path(namespace, NAME))
    if service is not None and _is_own(service, namespace):
        return True
    deployment = yield from read(DEPLOYMENTS.object_path(namespace, NAME))
    return deployment is not None and _is_own(deployment, namespace) and "webhooks" in components_of(deployment)


def prune(plan: PrunePlan) -> UninstallSteps[None]:
    """After all objects were applied."""
    if (yield from planned_writes(_remove(msgspec.structs.replace(plan, dry_run=True)))):
        yield from _await_former_pods(plan)
    yield from _remove(plan)


def prune_requests(plan: PrunePlan) -> UninstallSteps[list[HTTPRequest]]:
    """The requests that :func:`withdraw_webhooks` and :func:`prune` need: asked for before the first write."""
    dry_plan = msgspec.structs.replace(plan, dry_run=True)
    refused: list[HTTPRequest] = []
    yield from planned_writes(without_refused_reads(_withdraw(dry_plan), refused))
    writes = yield from planned_writes(without_refused_reads(_remove(dry_plan), []))
    pods = HTTPRequest("GET", PODS.collection_path(plan.namespace), "", ACCEPT)
    return [*refused, *writes, *([pods] if writes else [])]


def look_for_left_over(plan: PrunePlan) -> UninstallSteps[LeftOver]:
    """What `headgate install --check` says about other options. Raises nothing for objects that cannot be read."""
    dry_plan = msgspec.structs.replace(plan, dry_run=True)
    refused: list[HTTPRequest] = []
    writes = yield from planned_writes(without_refused_reads(_withdraw(dry_plan), refused))
    changed = [
        f"{singular(each.resource)}/{each.name}" for each in map(right_of, writes) if each.resource in CONFIGURATIONS
    ]
    objects = yield from without_refused_reads(left_over(plan.options, plan.namespace), refused)
    queues = yield from without_refused_reads(kept_queues(plan.options, plan.namespace), refused)
    unknown = list(dict.fromkeys(map(right_of, refused)))
    return LeftOver([*changed, *map(display_name, objects)], queues, unknown)


def _withdraw(plan: PrunePlan) -> UninstallSteps[None]:
    """The webhook entries of components that are not installed any more."""
    yield from withdraw_webhooks(plan)  # a replica may have restored them before it stopped
    if plan.withdrawn == ("jobs",):
        yield from withdraw_entries(plan.namespace, plan.withdrawn, dry_run=plan.dry_run)


def _remove(plan: PrunePlan) -> UninstallSteps[None]:
    yield from _withdraw(plan)
    if plan.keeps_objects:
        return
    refused: list[HTTPRequest] = []
    for obj in (yield from without_refused_reads(left_over(plan.options, plan.namespace), refused)):
        request = delete(resource_of(obj), *place_of(obj), obj["metadata"]["uid"])
        yield from write(request, f"{display_name(obj)} pruned: it is of other options", plan.dry_run)
    for right in map(right_of, refused):
        yield f"not known whether more is to be pruned: missing right: {right}"


def left_over(options: InstallOptions, namespace: str) -> UninstallSteps[list[Object]]:
    """The objects of this installation that the options do not have, in the order in which they are removed."""
    wanted = {path_of(each) for each in install_objects(options, namespace)}
    found: list[Object] = []
    for obj in reversed(install_objects(EVERYTHING, namespace)):
        if obj["kind"] in _KEPT_KINDS or path_of(obj) in wanted:
            continue
        live = yield from read(path_of(obj))
        if live is not None and _is_own(live, namespace) and not live["metadata"].get("deletionTimestamp"):
            found.append({**live, "kind": obj["kind"]})
    return found


def kept_queues(options: InstallOptions, namespace: str) -> UninstallSteps[list[str]]:
    """The queues that this installation made with other options. They stay: pods may wait in them."""
    items = yield from read_items(QUEUES.collection_path(), labelSelector=f"{MANAGED_BY}={FIELD_MANAGER}")
    names = [each["metadata"]["name"] for each in items if _is_own(each, namespace)]
    return [each for each in names if each != options.queue.name]


def _is_own(live: Object, namespace: str) -> bool:
    labels = live["metadata"].get("labels") or {}
    wanted = {PART_OF: NAME, MANAGED_BY: FIELD_MANAGER, INSTANCE: namespace}
    return all(labels.get(key) == value for key, value in wanted.items())


def _await_former_pods(plan: PrunePlan) -> UninstallSteps[None]:
    """Pods with other arguments than those of the Deployment run components that are not installed any more. If the
    Deployment has other arguments, too, another client installs other options, whose objects must stay."""
    (wanted,) = [each for each in install_objects(plan.options, plan.namespace) if is_manager(each)]
    arguments = _arguments(wanted["spec"]["template"]["spec"])
    waited_s = 0.0
    while True:
        deployment = yield from read(path_of(wanted))
        if deployment is None or _arguments(deployment["spec"]["template"]["spec"]) != arguments:
            raise UninstallError(
                f"nothing was pruned: another client changed the installation: {display_name(wanted)} does not have "
                "the arguments of this command any more; look with `headgate install --check`"
            )
        former = [
            each["metadata"]["name"]
            for each in (yield from running_pods(plan.namespace))
            if _arguments(each["spec"]) != arguments
        ]
        if not former:
            return
        if waited_s > _PATIENCE_S:
            raise UninstallError(
                f"nothing was pruned: pods with the former options still run after {_PATIENCE_S:.0f} s: "
                f"{', '.join(former)}; see `kubectl -n {plan.namespace} rollout status deployment/{NAME}`, and run the "
                "command again"
            )
        yield DelayedRequest(HTTPRequest("GET", "/version", "", ACCEPT), _PAUSE_S)
        waited_s += _PAUSE_S


def _arguments(pod: Object) -> list[str]:
    found = [each.get("args") or [] for each in pod["containers"] if each["name"] == NAME]
    return list(found[0]) if found else []
