"""Minimal definitions for tests."""

from __future__ import annotations

from typing import Any

from embedded import Embedded

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/t/widgets"


def a_version(name: str = "v1", properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}}
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}


def a_definition(*versions: dict[str, Any], names: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    given = {"plural": "widgets", "kind": "Widget", **(names or {})}
    group = spec.get("group", "example.com")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{given['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": given,
            "versions": list(versions) or [a_version()],
            **spec,
        },
    }


def a_widget(name: str = "a", version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, **fields}


def serving(*versions: dict[str, Any], **spec: Any) -> Embedded:
    server = Embedded()
    created = server.post(DEFINITIONS, a_definition(*versions, **spec))
    assert created.status == 201, created.body
    return server
