"""Discovery documents against those of a kube-apiserver v1.35.8 (``discovery-v1.35.8.json``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.apiserver.discovery import documents
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import EVERY_VERB, ServedKind

REAL: dict[str, Any] = json.loads((Path(__file__).parent / "discovery-v1.35.8.json").read_text())
LISTS = {path: body for path, body in REAL.items() if body.get("kind") == "APIResourceList"}


def on_the_wire(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


def without_hash(body: Any) -> Any:
    """The real server keeps this one kind in an older version, so its hash differs; see ``test_builtin_rows``."""
    for each in body["resources"]:
        if each["name"] == "volumeattributesclasses":
            each.pop("storageVersionHash")
    return body


@pytest.mark.parametrize("path", LISTS)
def test_the_resources_of_a_version_are_listed_as_the_real_server_lists_them(path: str) -> None:
    real = json.loads(json.dumps(LISTS[path]))
    group, _, version = real["groupVersion"].rpartition("/")
    ours = on_the_wire(documents.api_resource_list(BUILTIN, group, version))
    assert without_hash(ours) == without_hash(real)
    assert [list(each) for each in ours["resources"]] == [list(each) for each in real["resources"]]


@pytest.mark.parametrize("prefix", ["/api", "/apis"])
def test_the_aggregated_document_is_that_of_the_real_server(prefix: Any) -> None:
    assert json.dumps(on_the_wire(documents.aggregated(BUILTIN, prefix))) == json.dumps(REAL[f"aggregated {prefix}"])


def test_the_list_of_groups_is_that_of_the_real_server() -> None:
    assert documents.api_group_list(BUILTIN) == REAL["/apis"]


def test_a_group_names_its_preferred_version() -> None:
    group = documents.api_group(BUILTIN, "autoscaling")
    assert group is not None
    assert group["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert (group["kind"], group["apiVersion"]) == ("APIGroup", "v1")


def test_unknown_groups_and_versions_have_no_document() -> None:
    assert documents.api_group(BUILTIN, "example.com") is None
    assert documents.api_group(BUILTIN, "") is None
    assert documents.api_resource_list(BUILTIN, "apps", "v9") is None
    assert documents.api_resource_list(BUILTIN, "example.com", "v1") is None


def test_the_core_group_says_where_it_is_reached() -> None:
    assert documents.api_versions(BUILTIN, "127.0.0.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }


V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (V2, True),
        (f"{V2},{BETA},application/json", True),
        (f"{BETA},{V2},application/json", True),
        ("application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io", True),
        (f"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io,{V2}", True),
        (f"{BETA},application/json", False),
        (f"application/json,{V2}", False),
        ("application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_the_accept_header_chooses_the_dialect(accept: str, wanted: bool) -> None:
    assert documents.wants_aggregated(accept) is wanted


def test_the_etag_follows_the_content() -> None:
    widget = ServedKind(
        group="example.com",
        version="v1",
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=True,
        verbs=EVERY_VERB,
        type_name="com.example.v1.Widget",
        stored_as=("example.com", "widgets"),
        stored_version="v1",
    )
    before = documents.etag(documents.aggregated(BUILTIN, "/apis"))
    after = documents.etag(documents.aggregated(BUILTIN.with_replaced((), [widget]), "/apis"))
    assert before == documents.etag(documents.aggregated(BUILTIN, "/apis"))
    assert before != after
    assert before.startswith('"')
    assert before.endswith('"')
    assert len(before) == 128 + 2


def test_the_version_is_that_of_kubernetes_with_a_mark_of_ours() -> None:
    version = documents.version("0.1.0+dirty", "3.12.1", "linux/amd64")
    assert version["gitVersion"] == "v1.35.8+headgate.0.1.0-dirty"
    assert (version["major"], version["minor"], version["minCompatibilityMinor"]) == ("1", "35", "34")


def test_the_root_lists_every_group_version_and_what_is_added() -> None:
    paths = documents.root_paths(BUILTIN, ["/healthz"])["paths"]
    assert paths == sorted(paths)
    assert {"/api", "/api/v1", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/healthz", "/version"} <= set(paths)
