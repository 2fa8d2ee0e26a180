"""Uninstallation, in an order in which nothing is refused and nothing waits without end.

1. The webhooks: their entries are removed, so that no write is refused for a webhook that does not answer, and
   versions of Kueue's kinds are no longer converted. Running replicas see the annotation of the Secret and do not
   restore them.
2. The Deployment: it is deleted (or, before ``helm uninstall``, scaled to 0), and its pods are awaited.
3. Waiting pods and jobs are released, unless the gates are to be kept (``releasing.py``).
4. Workloads that ``headgate hold`` deactivated are activated, and finalizers are removed, so that queues, Workloads and
   pods can be deleted (``releasing.py``).
5. Leases, then the objects of the installation, in the reverse order of their creation; then the namespace.

Users' queues and Workloads stay, unless ``delete_data`` is set. Every step may be repeated. Pure: a generator that
yields requests and lines of text.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import ACCEPT, delete, patch
from headgate.http.transport import HTTPRequest
from headgate.install.applying import helm_release, is_of_headgate
from headgate.install.existing import UnknownInstallation, elsewhere, existing_installations
from headgate.install.kinds import SECRETS, display_name, path_of, place_of, resource_of
from headgate.install.manifests import EVERYTHING, install_objects, is_manager, namespace_object
from headgate.install.names import NAME, PART_OF
from headgate.install.releasing import activate_workloads, release_waiting, remove_finalizers
from headgate.install.rights import LEASE_NAMESPACE, LEASES
from headgate.install.uninstall_steps import (
    UninstallError,
    UninstallSteps,
    perform_all,
    planned_writes,
    read,
    read_items,
    refuse_without_rights,
    running_pods,
    without_refused_reads,
    write,
)
from headgate.install.webhook_removal import (
    converted_definitions,
    end_conversion,
    mark_removed,
    own_definitions,
    remove_entries,
    singular,
)
from headgate.kube.api_resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    APIResource,
)
from headgate.kube.api_resources import LEASES as LEASE_OBJECTS

Object = dict[str, Any]

_PAUSE_S: Final = 0.5
_POD_PATIENCE_S: Final = 120.0
_DEFINITION_PATIENCE_S: Final = 120.0
_REPEAT_S: Final = 5.0
_SHOWN_OBJECTS: Final = 3
_REPEATED: Final = "headgate.dev/deletion-repeated"
_DELETION_PROBLEMS: Final = ("InstanceDeletionFailed", "InstanceDeletionCheck")
_CONFLICT: Final = 409
_FOREGROUND: Final = "foregroundDeletion"
_KEPT: Final = f"kept: it does not have the label {PART_OF}={NAME}, so no installation made it"


class UninstallPlan(msgspec.Struct, frozen=True):
    """``lifts_gates``: waiting pods and jobs are released. ``deletes_data``: queues, Workloads and Headgate's own
    definitions are deleted. ``prepares``: the objects of the installation stay, because Helm deletes them next.
    ``dry_run``: nothing is written."""

    namespace: str
    lifts_gates: bool = True
    deletes_data: bool = False
    prepares: bool = False
    dry_run: bool = False


def uninstall(plan: UninstallPlan) -> UninstallSteps[None]:
    """Raises :class:`UninstallError` if a right is missing, before anything is changed, or if a step fails; then the
    same command continues from there."""
    refused: list[HTTPRequest] = []
    steps = without_refused_reads(_uninstall(msgspec.structs.replace(plan, dry_run=True)), refused)
    planned = yield from planned_writes(steps)
    if refused:
        yield from refuse_without_rights([*refused, *planned])
    if plan.dry_run:
        yield from _uninstall(plan)
    yield from refuse_without_rights(planned)
    if not plan.dry_run:
        yield from _uninstall(plan)


def _uninstall(plan: UninstallPlan) -> UninstallSteps[None]:
    if not plan.prepares and (release := (yield from helm_release(plan.namespace))):
        hint = f"run: helm uninstall {release} --namespace {plan.namespace}"
        raise UninstallError(f"Helm manages this installation; {hint}")
    yield from _refuse_another_namespace(plan)
    definitions = yield from own_definitions()
    yield from _remove_webhooks(plan)
    yield from _stop(plan)
    if not plan.dry_run:
        # A replica of a release that does not know the annotation may have restored them before it stopped.
        yield from _remove_webhooks(plan)
    # No controller runs any more, so one object that cannot be written must not keep the others waiting.
    yield from perform_all(
        [
            release_waiting(lifts_gates=plan.lifts_gates, dry_run=plan.dry_run, definitions=definitions),
            activate_workloads(dry_run=plan.dry_run),
            remove_finalizers(dry_run=plan.dry_run, definitions=definitions),
        ]
    )
    if plan.deletes_data:
        yield from _delete_data(plan, definitions)
    yield from _delete_leases(plan)
    if not plan.prepares:
        yield from _delete_objects(plan)


def _refuse_another_namespace(plan: UninstallPlan) -> UninstallSteps[None]:
    """Before the first write: the webhooks and roles that follow belong to the installation of another namespace."""
    found = yield from existing_installations()
    if isinstance(found, UnknownInstallation):
        raise UninstallError(f"cannot find the namespace of the installation: {found.text}")
    others = elsewhere(found, plan.namespace)
    if others and len(others) == len(found):
        command = f"headgate uninstall --prepare --namespace {others[0].namespace}"
        raise UninstallError(
            f"Headgate is installed in namespace {others[0].namespace}, not in {plan.namespace}; nothing was deleted; "
            f"run: {command if plan.prepares else others[0].removal}"
        )


def _remove_webhooks(plan: UninstallPlan) -> UninstallSteps[None]:
    yield from mark_removed(plan.namespace, dry_run=plan.dry_run)
    yield from remove_entries(dry_run=plan.dry_run)
    for name in (yield from converted_definitions(plan.namespace)):
        yield from end_conversion(name, dry_run=plan.dry_run)


def _stop(plan: UninstallPlan) -> UninstallSteps[None]:
    found = yield from read(DEPLOYMENTS.object_path(plan.namespace, NAME))
    if found is not None and not is_of_headgate(found):
        yield f"deployment.apps/{NAME} {_KEPT}"
    elif found is not None:
        uid = found["metadata"]["uid"]
        if not plan.prepares:
            request = delete(DEPLOYMENTS, plan.namespace, NAME, uid, {"propagationPolicy": "Foreground"})
            yield from write(request, f"deployment.apps/{NAME} deleted", plan.dry_run)
        elif found["spec"].get("replicas") != 0:
            request = patch(DEPLOYMENTS, plan.namespace, NAME, uid, {"spec": {"replicas": 0}})
            yield from write(request, f"deployment.apps/{NAME} scaled to 0", plan.dry_run)
    if plan.dry_run:
        yield from running_pods(plan.namespace)
        return
    yield from _await_pods(plan)
    yield from _await_leases()


def _await_pods(plan: UninstallPlan) -> UninstallSteps[None]:
    waited_s = 0.0
    while running := (yield from running_pods(plan.namespace)):
        if waited_s > _POD_PATIENCE_S:
            names = ", ".join(each["metadata"]["name"] for each in running)
            raise UninstallError(f"pods do not end: {names}; delete them and run the command again")
        yield DelayedRequest(HTTPRequest("GET", "/version", "", ACCEPT), _PAUSE_S)
        waited_s += _PAUSE_S


def _await_leases() -> UninstallSteps[None]:
    """A leader that was killed leaves its Lease behind. One that is renewed has a leader outside this installation,
    which would set finalizers again."""
    for name in LEASES.values():
        path = LEASE_OBJECTS.object_path(LEASE_NAMESPACE, name)
        first = yield from read(path)
        spec = (first or {}).get("spec") or {}
        waited_s = 0.0
        while spec.get("holderIdentity") and waited_s < float(spec.get("leaseDurationSeconds") or 15):
            yield DelayedRequest(HTTPRequest("GET", "/version", "", ACCEPT), _PAUSE_S)
            waited_s += _PAUSE_S
            now = ((yield from read(path)) or {}).get("spec") or {}
            if now.get("holderIdentity") and now.get("renewTime") != spec.get("renewTime"):
                raise UninstallError(
                    f"the Lease {LEASE_NAMESPACE}/{name} is renewed by {now['holderIdentity']}: another Headgate "
                    "process runs outside this installation; stop it and run the command again"
                )
            if not now.get("holderIdentity"):
                break


def _delete_data(plan: UninstallPlan, definitions: dict[str, Object | None]) -> UninstallSteps[None]:
    """A definition takes all its objects with it."""
    yield from _await_service(definitions)
    for name, definition in definitions.items():
        if definition is None:
            yield f"customresourcedefinition.apiextensions.k8s.io/{name} kept: another program installed it"
            continue
        request = delete(CUSTOM_RESOURCE_DEFINITIONS, "", name, definition["metadata"]["uid"])
        line = f"customresourcedefinition.apiextensions.k8s.io/{name} deleted, with all its objects"
        yield from write(request, line, plan.dry_run)
    if not plan.dry_run:
        for name, definition in definitions.items():
            if definition is not None:
                yield from _await_definition(name, definition)


def _await_service(definitions: dict[str, Object | None]) -> UninstallSteps[None]:
    """Reads one object of each kind. The server initializes the storage of a kind at its first request after a change
    of its definition; if that first request is the server's own, for the deletion, its retries double to minutes."""
    for definition in definitions.values():
        if definition is not None:
            yield DelayedRequest(HTTPRequest("GET", _collection_path(definition), "limit=1", ACCEPT))


def _collection_path(definition: Object) -> str:
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"


def _objects_with_finalizers(definition: Object) -> UninstallSteps[str]:
    """The first objects of the definition whose finalizers keep them, with these finalizers; empty if there are
    none."""
    kept = [
        (each["metadata"], ", ".join(each["metadata"]["finalizers"]))
        for each in (yield from read_items(_collection_path(definition)))
        if each["metadata"].get("finalizers")
    ]
    shown = [
        f"{'/'.join(filter(None, (meta.get('namespace'), meta['name'])))} has the finalizer {finalizers}"
        for meta, finalizers in kept[:_SHOWN_OBJECTS]
    ]
    return ", ".join(shown) + (f" and {len(kept) - _SHOWN_OBJECTS} more" if len(kept) > _SHOWN_OBJECTS else "")


def _await_definition(name: str, definition: Object) -> UninstallSteps[None]:
    """Waits until this definition is deleted. While the server waits between attempts to delete its
    objects, a change of an annotation makes it try again at once."""
    uid = definition["metadata"]["uid"]
    path = CUSTOM_RESOURCE_DEFINITIONS.object_path("", name)
    waited_s = 0.0
    while (found := (yield from read(path))) is not None and found["metadata"]["uid"] == uid:
        problem = _deletion_problem(found)
        if waited_s > _DEFINITION_PATIENCE_S:
            held = yield from _objects_with_finalizers(definition)
            reason = f": {held or problem}" if held or problem else ""
            advice = "remove the finalizers, and run the command again" if held else "run the command again"
            raise UninstallError(
                f"CustomResourceDefinition {name} is not deleted after {_DEFINITION_PATIENCE_S:.0f} s{reason}; {advice}"
            )
        if problem and waited_s and waited_s % _REPEAT_S == 0:
            body = {"metadata": {"annotations": {_REPEATED: f"{waited_s:.0f}"}}}
            request = patch(CUSTOM_RESOURCE_DEFINITIONS, "", name, uid, body)
            line = f"customresourcedefinition.apiextensions.k8s.io/{name} is not deleted yet: {problem}; repeated"
            yield from write(request, line, False, accepted=(_CONFLICT,))
        yield DelayedRequest(HTTPRequest("GET", "/version", "", ACCEPT), _PAUSE_S)
        waited_s += _PAUSE_S


def _deletion_problem(definition: Object) -> str:
    """Why the server could not delete the objects of a definition; empty if there is no problem."""
    for condition in (definition.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Terminating" and condition.get("reason") in _DELETION_PROBLEMS:
            return str(condition.get("message", ""))
    return ""


def _await_absence(resource: APIResource, name: str, patience_s: float) -> UninstallSteps[None]:
    waited_s = 0.0
    while (found := (yield from read(resource.object_path("", name)))) is not None:
        if waited_s > patience_s:
            said = [
                str(each.get("message", ""))
                for each in (found.get("status") or {}).get("conditions") or ()
                if each.get("status") == "True"
            ]
            reason = "; ".join(filter(None, said)) or "see its conditions"
            raise UninstallError(f"{resource.plural} {name} is not deleted after {patience_s:.0f} s: {reason}")
        yield DelayedRequest(HTTPRequest("GET", "/version", "", ACCEPT), _PAUSE_S)
        waited_s += _PAUSE_S


def _delete_leases(plan: UninstallPlan) -> UninstallSteps[None]:
    for name in LEASES.values():
        found = yield from read(LEASE_OBJECTS.object_path(LEASE_NAMESPACE, name))
        if found is not None:
            request = delete(LEASE_OBJECTS, LEASE_NAMESPACE, name, found["metadata"]["uid"])
            yield from write(request, f"lease.coordination.k8s.io/{name} deleted", plan.dry_run)


def _delete_objects(plan: UninstallPlan) -> UninstallSteps[None]:
    """Those with the label of an installation; an object of the same name that a user made stays."""
    for obj in reversed(install_objects(EVERYTHING, plan.namespace)):
        if obj["kind"] == "Namespace" or is_manager(obj):
            continue
        found = yield from read(path_of(obj))
        if found is not None and not is_of_headgate(found):
            yield f"{display_name(obj)} {_KEPT}"
        if found is None or not is_of_headgate(found):
            continue
        request = delete(resource_of(obj), *place_of(obj), found["metadata"]["uid"])
        yield from write(request, f"{display_name(obj)} deleted", plan.dry_run)
    if not plan.dry_run:
        yield from _await_deployment(plan)
    yield from _delete_namespace(plan)


def _await_deployment(plan: UninstallPlan) -> UninstallSteps[None]:
    """Its pods have ended. The garbage collector removes its own finalizer; those of other programs keep it."""
    waited_s = 0.0
    while (found := (yield from read(DEPLOYMENTS.object_path(plan.namespace, NAME)))) is not None:
        metadata = found["metadata"]
        held = [each for each in metadata.get("finalizers") or () if each != _FOREGROUND]
        if not metadata.get("deletionTimestamp") or not is_of_headgate(found):
            return
        if waited_s > _POD_PATIENCE_S or (held and _FOREGROUND not in metadata["finalizers"]):
            reason = (
                f"it has the finalizer {', '.join(held)} of another program; remove it" if held else "see its events"
            )
            raise UninstallError(f"deployment.apps/{NAME} is not deleted: {reason}, and run the command again")
        yield DelayedRequest(HTTPRequest("GET", "/version", "", ACCEPT), _PAUSE_S)
        waited_s += _PAUSE_S


def _delete_namespace(plan: UninstallPlan) -> UninstallSteps[None]:
    """Only if the installation created it and nothing else is in it."""
    obj = namespace_object(plan.namespace)
    found = yield from read(path_of(obj))
    if found is None or not is_of_headgate(found):
        return
    rest: list[str] = []
    for resource, own in _MAY_REMAIN.items():
        items = yield from read_items(resource.collection_path(plan.namespace))
        labelled = ((each["metadata"], each["metadata"].get("labels") or {}) for each in items)
        rest += [
            f"{singular(resource)}/{meta['name']}"
            for meta, labels in labelled
            if meta["name"] not in own and not (plan.dry_run and labels.get(PART_OF) == NAME)
        ]
    if rest:
        yield f"namespace/{plan.namespace} kept: it contains {', '.join(sorted(rest))}"
        return
    request = delete(resource_of(obj), "", plan.namespace, found["metadata"]["uid"])
    yield from write(request, f"namespace/{plan.namespace} deleted", plan.dry_run)
    if not plan.dry_run:
        yield from _await_absence(resource_of(obj), plan.namespace, _POD_PATIENCE_S)


_MAY_REMAIN: Final = {
    PODS: (),
    SERVICES: (),
    SECRETS: (),
    CONFIG_MAPS: ("kube-root-ca.crt",),
    SERVICE_ACCOUNTS: ("default",),
}
"""What is looked for in the namespace, and what every namespace has."""
