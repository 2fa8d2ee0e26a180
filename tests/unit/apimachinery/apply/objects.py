"""Objects and helpers for the tests of ``apimachinery/apply``."""

from __future__ import annotations

from functools import cache
from typing import Any

from headgate import schemas as tables
from headgate.apimachinery.apply import ApplyError, ApplyResult, apply_config, parseable_type, track_update
from headgate.apimachinery.codec.codec import convert, wire_form
from headgate.kube.schema import Schemas

Object = dict[str, Any]
CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
POD = "io.k8s.api.core.v1.Pod"
DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"
EARLY, NOON, LATE = "2026-01-01T06:00:00Z", "2026-01-01T12:00:00Z", "2026-01-01T18:00:00Z"
VERSIONS = {CONFIG_MAP: "v1", POD: "v1", DEPLOYMENT: "apps/v1"}


@cache
def all_schemas() -> Schemas:
    return Schemas.load(tables.read())


def encoded(type_name: str, obj: Object) -> Object:
    """`obj` as a server prints it."""
    return wire_form(all_schemas(), type_name, convert(all_schemas(), type_name, obj).obj)


def make_config_map(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def make_pod(*containers: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": list(containers or ({"name": "main", "image": "i"},)), **spec},
    }


def with_uid(obj: Object) -> Object:
    """``obj`` with the uid that it has after its creation."""
    return {**obj, "metadata": {**obj["metadata"], "uid": "u", "resourceVersion": "1"}}


def create(type_name: str, obj: Object, manager: str = "creator", now: str = EARLY, **options: Any) -> Object:
    new = encoded(type_name, obj)
    version = VERSIONS[type_name]
    return with_uid(
        track_update(
            parseable_type(all_schemas(), type_name),
            None,
            new,
            manager=manager,
            api_version=version,
            now=now,
            **options,
        )
    )


def update(type_name: str, live: Object, new: Object, manager: str, now: str = NOON, **options: Any) -> Object:
    return track_update(
        parseable_type(all_schemas(), type_name),
        live,
        new,
        manager=manager,
        api_version=VERSIONS[type_name],
        now=now,
        **options,
    )


def apply(
    type_name: str, live: Object | None, config: Object, manager: str, now: str = NOON, **options: Any
) -> ApplyResult | ApplyError:
    return apply_config(
        parseable_type(all_schemas(), type_name),
        live,
        config,
        manager=manager,
        api_version=VERSIONS[type_name],
        now=now,
        **options,
    )


def applied(
    type_name: str, live: Object | None, config: Object, manager: str, now: str = NOON, **options: Any
) -> Object:
    """The object after an apply that must succeed."""
    result = apply(type_name, live, config, manager, now, **options)
    assert isinstance(result, ApplyResult), result
    return with_uid(encoded(type_name, result.obj))


def apply_error(type_name: str, live: Object | None, config: Object, manager: str, **options: Any) -> ApplyError:
    result = apply(type_name, live, config, manager, **options)
    assert isinstance(result, ApplyError)
    return result


def owners(obj: Object) -> dict[str, Any]:
    """The field sets by manager (`name`, or `name/subresource`) and operation."""
    return {
        f"{entry['operation']} {entry['manager']}"
        + (f"/{entry['subresource']}" if "subresource" in entry else ""): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def times(obj: Object) -> dict[str, str | None]:
    return {entry["manager"]: entry.get("time") for entry in obj["metadata"].get("managedFields", [])}
