"""OpenAPI v3 as kubectl reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.apiserver.discovery import openapi
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.table import KindTable
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.kube.schema import Schemas

CORE = "io.k8s.api.core.v1."


def get(
    tables: Schemas, path: str, query: str = "", kinds: KindTable = BUILTIN, headers: dict[str, str] | None = None
) -> ServerResponse | None:
    return openapi.respond(tables, kinds, ServerRequest("GET", path, query, headers or {}))


def document(tables: Schemas, name: str, kinds: KindTable = BUILTIN) -> dict[str, Any]:
    result = get(tables, f"/openapi/v3/{name}", kinds=kinds)
    assert result is not None
    assert result.status == 200
    return dict(json.loads(result.body))


def index(tables: Schemas) -> dict[str, str]:
    result = get(tables, "/openapi/v3")
    assert result is not None
    return {name: each["serverRelativeURL"] for name, each in json.loads(result.body)["paths"].items()}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_index_names_every_group_version(tables: Schemas) -> None:
    assert {"api/v1", "apis/apps/v1", "apis/autoscaling/v1", "apis/autoscaling/v2"} <= set(index(tables))


def test_a_document_requested_by_its_hash_may_be_cached_forever(tables: Schemas) -> None:
    path, _, query = index(tables)["apis/apps/v1"].partition("?")
    result = get(tables, path, query)
    assert result is not None
    assert result.status == 200
    assert "immutable" in dict(result.headers)["Cache-Control"]
    again = get(tables, path, query, headers={"if-none-match": dict(result.headers)["ETag"]})
    assert again is not None
    assert (again.status, again.body) == (304, b"")


def test_an_old_hash_redirects_to_the_current_one(tables: Schemas) -> None:
    result = get(tables, "/openapi/v3/apis/apps/v1", "hash=OLD&timeout=32s")
    assert result is not None
    assert result.status == 301
    assert dict(result.headers)["Location"] == index(tables)["apis/apps/v1"]


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/json;q=0.5, text/plain", 200),
        ("application/com.github.proto-openapi.spec.v3@v1.0+protobuf,application/json", 200),
        ("application/com.github.proto-openapi.spec.v3@v1.0+protobuf", 406),
        ("text/plain", 406),
    ],
)
def test_documents_are_json_only(tables: Schemas, accept: str, status: int) -> None:
    result = get(tables, "/openapi/v3/apis/policy/v1", headers={"accept": accept})
    assert result is not None
    assert result.status == status


@pytest.mark.parametrize("path", ["/", "/api/v1/pods", "/openapi/v2/", "/openapi/v3/", "/openapi/v3/apis/foo/v1"])
def test_other_paths_are_not_handled(tables: Schemas, path: str) -> None:
    assert get(tables, path) is None


def test_every_reference_in_every_document_resolves(tables: Schemas) -> None:
    for name in index(tables):
        found = document(tables, name)
        assert set(references(found)) <= set(found["components"]["schemas"]), name


def test_patching_a_kind_takes_field_validation_and_strategic_merge(tables: Schemas) -> None:
    path = document(tables, "apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    patch = path["patch"]
    assert patch["operationId"] == "patchAppsV1NamespacedDeployment"
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}} in patch[
        "parameters"
    ]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_paths_follow_scope_and_verbs(tables: Schemas) -> None:
    paths = document(tables, "api/v1")["paths"]
    assert set(paths["/api/v1/nodes"]) == {"get", "post", "delete", "parameters"}
    assert set(paths["/api/v1/pods"]) == {"get", "parameters"}
    assert set(paths["/api/v1/namespaces/{namespace}/bindings"]) == {"post", "parameters"}
    eviction = paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"]["kind"] == "Eviction"
    assert eviction["operationId"] == "createCoreV1NamespacedPodEviction"
    attach = paths["/api/v1/namespaces/{namespace}/pods/{name}/attach"]["post"]
    assert (attach["x-kubernetes-action"], "requestBody" in attach) == ("connect", False)


def test_a_type_has_what_kubectl_explain_and_apply_need(tables: Schemas) -> None:
    schemas = document(tables, "api/v1")["components"]["schemas"]
    assert schemas[CORE + "Pod"]["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    spec = schemas[CORE + "PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["volumes"] == {
        "type": "array",
        "items": {"allOf": [{"$ref": f"#/components/schemas/{CORE}Volume"}], "default": {}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    }
    assert spec["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]
    quantity = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}
    assert spec["properties"]["overhead"] == {"type": "object", "additionalProperties": quantity}
    assert schemas[CORE + "ServiceSpec"]["properties"]["ipFamilies"]["items"]["enum"] == ["", "IPv4", "IPv6"]
    claim = schemas[CORE + "PersistentVolumeSpec"]["properties"]["claimRef"]
    assert claim["x-kubernetes-map-type"] == "granular"
    assert schemas[CORE + "ObjectReference"]["x-kubernetes-map-type"] == "atomic"
