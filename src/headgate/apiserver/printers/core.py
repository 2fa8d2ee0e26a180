"""Printers of nodes, namespaces, configuration, secrets, service accounts, events and leases."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cells,
    Object,
    Printer,
    TableColumn,
    age_of,
    name_of,
    part,
    since,
    since_micro,
    text,
    wide,
)

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _node_cells(node: Object, now: float) -> Cells:
    status = part(node, "status")
    info = part(status, "nodeInfo")
    return [
        name_of(node),
        node_status(node),
        ",".join(node_roles(node)) or NONE,
        age_of(node, now),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def node_status(node: Object) -> str:
    ready = [each for each in part(node, "status").get("conditions") or () if each.get("type") == "Ready"]
    status_text = "Unknown"
    if ready:
        status_text = "Ready" if ready[-1].get("status") == "True" else "NotReady"
    return f"{status_text},SchedulingDisabled" if part(node, "spec").get("unschedulable") else status_text


def node_roles(node: Object) -> list[str]:
    roles = set()
    for key, value in part(node, "metadata", "labels").items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL:
            roles.add(value)
    return sorted(roles - {""})


def _address(status: Object, type_: str) -> str:
    for each in status.get("addresses") or ():
        if each.get("type") == type_:
            return each.get("address") or ""
    return NONE


def _namespace_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), part(obj, "status").get("phase") or "", age_of(obj, now)]


def _config_map_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), len(part(obj, "data")) + len(part(obj, "binaryData")), age_of(obj, now)]


def _secret_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), obj.get("type") or "", len(part(obj, "data")), age_of(obj, now)]


def _name_and_age(obj: Object, now: float) -> Cells:
    return [name_of(obj), age_of(obj, now)]


def _lease_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), part(obj, "spec").get("holderIdentity") or "", age_of(obj, now)]


def _runtime_class_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), obj.get("handler") or "", age_of(obj, now)]


def _component_cells(obj: Object, now: float) -> Cells:
    for each in obj.get("conditions") or ():
        if each.get("type") == "Healthy":
            status_text = "Healthy" if each.get("status") == "True" else "Unhealthy"
            return [name_of(obj), status_text, each.get("message") or "", each.get("error") or ""]
    return [name_of(obj), "Unknown", "", ""]


def _event_cells(event: Object, now: float) -> Cells:
    """The cells of a core event. Newer writers set ``eventTime`` and ``series``, older ones timestamps and
    ``count``."""
    first = event.get("firstTimestamp")
    first_seen = since(first, now) if first else since_micro(event.get("eventTime"), now)
    last = event.get("lastTimestamp")
    last_seen = since(last, now) if last else first_seen
    count, series = event.get("count") or 1, event.get("series")
    if series is not None:
        last_seen, count = since_micro(series.get("lastObservedTime"), now), series.get("count") or 0
    involved, source = part(event, "involvedObject"), part(event, "source")
    kind = (involved.get("kind") or "").lower()
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return [
        last_seen,
        event.get("type") or "",
        event.get("reason") or "",
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath") or "",
        f"{component}, {instance}" if instance else component,
        (event.get("message") or "").strip(),
        first_seen,
        count,
        name_of(event),
    ]


NODE: Final = Printer(
    (
        NAME,
        text("Status", "Whether it is ready, and takes pods."),
        text("Roles", "What it is for."),
        AGE,
        text("Version", "Version of its kubelet."),
        wide("Internal-IP", "Address inside the cluster."),
        wide("External-IP", "Address from outside."),
        wide("OS-Image", "Its operating system."),
        wide("Kernel-Version", "Version of its kernel."),
        wide("Container-Runtime", "What runs its containers."),
    ),
    _node_cells,
)
NAMESPACE: Final = Printer((NAME, text("Status", "Whether it is active or terminating."), AGE), _namespace_cells)
CONFIG_MAP: Final = Printer((NAME, text("Data", "How many keys it has."), AGE), _config_map_cells)
SECRET: Final = Printer(
    (NAME, text("Type", "What it is used for."), text("Data", "How many keys it has."), AGE), _secret_cells
)
NAME_AND_AGE: Final = Printer((NAME, AGE), _name_and_age)
LEASE: Final = Printer((NAME, text("Holder", "The identity of the holder."), AGE), _lease_cells)
RUNTIME_CLASS: Final = Printer((NAME, text("Handler", "Its name in the runtime."), AGE), _runtime_class_cells)
COMPONENT_STATUS: Final = Printer(
    (
        NAME,
        text("Status", "Whether it is healthy."),
        text("Message", "The message of the component."),
        text("Error", "The problem of the component."),
    ),
    _component_cells,
)
EVENT: Final = Printer(
    (
        text("Last Seen", "Time since it happened last."),
        text("Type", "Normal or Warning."),
        text("Reason", "What happened, in one word."),
        text("Object", "What it happened to."),
        wide("Subobject", "Which part of the object."),
        wide("Source", "The component that reports it."),
        text("Message", "What happened, in a sentence."),
        wide("First Seen", "Time since it happened first."),
        wide("Count", "How often it happened."),
        TableColumn("Name", "string", "name", "Name of the event.", 1),
    ),
    _event_cells,
)
