"""What the servers say they serve: old and new discovery, versions, health, and the schemas clients validate with."""

from __future__ import annotations

from typing import Any

import pytest

from harness.compare import Seen, differences, seen
from harness.normalise import Normaliser
from harness.request_cases import Case, case, cases_of, get
from harness.served_groups import (
    NOT_SERVED,
    SERVED_GROUPS,
    SERVED_VERSIONS,
    only_served_groups,
    only_served_kinds,
    root_of,
)
from harness.server import Server
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2_BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
KUBECTL = f"{V2},{V2_BETA},application/json"
ACCEPTS = {
    "nothing named": "",
    "json": "application/json",
    "anything": "*/*",
    "the new form": V2,
    "the beta form": V2_BETA,
    "what kubectl sends": KUBECTL,
    "the beta form first": f"{V2_BETA},{V2},application/json",
    "an unknown form": "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
    "an unknown form, or json": "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json",
    "yaml": "application/yaml",
    "html": "text/html",
}
GROUPS = sorted(SERVED_GROUPS - {""})
CASES = cases_of(
    [
        case(f"the resources of {version}", get(root_of(version)), get(f"{root_of(version)}/"))
        for version in SERVED_VERSIONS
    ],
    [case(f"the versions of {group}", get(f"/apis/{group}"), get(f"/apis/{group}/")) for group in GROUPS],
    [
        case("the version of the server", get("/version"), get("/version?timeout=5s"), get("/version/")),
        case(
            "a time limit that is no duration",
            *(
                step
                for path in ("/version", "/healthz", "/api", "/apis/apps/v1", "/odd", "/api/v1/nodes", "/api/v1/odd")
                for step in (
                    get(f"{path}?timeout=invalid"),
                    get(f"{path}?timeout=invalid", Authorization="Bearer wrong"),
                    get(f"{path}?timeout=1y", "application/yaml"),
                )
            ),
            get("/api/v1/watch/nodes/none?timeout=invalid&resourceVersion=x"),
            get("/api/v1/namespaces/{ns}/pods/none/status?timeout="),
        ),
        case(
            "health",
            *(get(path) for path in ("/healthz", "/livez", "/readyz", "/healthz/", "/livez/ping", "/healthz/ping")),
        ),
        case(
            "groups nobody has",
            get("/apis/odd.example"),
            get("/apis/apps/v9"),
            get("/api/v9"),
            get("/apis/odd.example/v1"),
        ),
        case(
            "resources of a version in other forms",
            *(get("/apis/apps/v1", accept) for accept in (V2, "text/html", "*/*", "application/yaml")),
        ),
        case(
            "a group in other forms", *(get("/apis/apps", accept) for accept in (V2, "text/html", "application/yaml"))
        ),
    ],
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_discovery_is_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/", "/apis/"])
@pytest.mark.parametrize("accept", ACCEPTS.values(), ids=ACCEPTS.keys())
def test_groups_are_listed_the_same(servers: ServerPair, path: str, accept: str) -> None:
    def ask(server: Server) -> Seen:
        answer = server.request("GET", path, {"Accept": accept})
        normal = seen(answer, Normaliser(server.address))
        headers = {name: value for name, value in normal.headers.items() if name != "etag"}
        body = only_served_groups(normal.body) if isinstance(normal.body, dict) else normal.body
        return Seen(normal.status, headers, body)

    real, ours = servers.on_each(ask)
    servers.judge(list(differences(f"the list of groups at {path} as {accept}", f"GET {path}", real, ours)))


def test_an_unchanged_discovery_is_not_sent_again(servers: ServerPair) -> None:
    def ask(server: Server) -> list[int]:
        first = server.request("GET", "/apis", {"Accept": KUBECTL})
        tag = first.header("etag")
        assert tag, f"{server.name} sends no etag"
        again = server.request("GET", "/apis", {"Accept": KUBECTL, "If-None-Match": tag})
        other = server.request("GET", "/apis", {"Accept": KUBECTL, "If-None-Match": '"other"'})
        return [first.status, again.status, len(again.body), other.status]

    real, ours = servers.on_each(ask)
    assert real == ours


def test_the_table_of_served_groups_equals_discovery(servers: ServerPair) -> None:
    def ask(server: Server) -> set[str]:
        return {group["name"] for group in server.request("GET", "/apis").json()["groups"]}

    real, ours = servers.on_each(ask)
    assert {name for name in real if name.endswith(".k8s.io") or "." not in name} == (SERVED_GROUPS | NOT_SERVED) - {""}
    assert ours >= SERVED_GROUPS - {""}


@pytest.mark.parametrize("path", ["/api/v1/watch", "/api/v1/watch/?a=<b>&c", "/apis/apps/v1/proxy"])
def test_a_path_that_ends_where_its_resource_should_follow_is_refused_before_authentication(
    servers: ServerPair, path: str
) -> None:
    def ask(server: Server) -> tuple[int, str | None, bytes]:
        answer = server.request("GET", path, {"Authorization": "Bearer wrong"})
        return answer.status, answer.header("content-type"), answer.body

    real, ours = servers.on_each(ask)
    assert real == ours


OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2"


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/*",
        "application/json",
        "application/json, */*",
        f"{OPENAPI_V2}@v1.0+protobuf",
        f"{OPENAPI_V2}.v1.0+protobuf",
        f"application/json;q=0.4,{OPENAPI_V2}@v1.0+protobuf",
        f"application/json,{OPENAPI_V2}@v1.0+protobuf;q=0.4",
        "application/json;v=9",
        "application/yaml",
        "text/html",
    ],
)
def test_version_2_of_the_schemas_comes_in_the_form_that_is_asked_for(servers: ServerPair, accept: str) -> None:
    def ask(server: Server) -> tuple[int, str | None, bool]:
        answer = server.request("GET", "/openapi/v2", {"Accept": accept} if accept else {})
        kind = answer.header("content-type")
        says_version = b"2.0" in answer.body[:40]
        assert kind != "application/json" or answer.json()["swagger"] == "2.0"
        return answer.status, kind, says_version

    real, ours = servers.on_each(ask)
    assert real == ours


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_lists_its_checks_when_it_is_asked_to_be_verbose(servers: ServerPair, path: str) -> None:
    def ask(server: Server) -> list[str]:
        text = server.request("GET", f"{path}?verbose&exclude=ping&exclude=odd&exclude=none").body.decode()
        first, *checks, warning, last, end = text.split("\n")
        for check in checks:
            assert check.startswith("[+]"), check
            assert check.endswith(" ok"), check
            one = server.request("GET", f"{path}/{check.removeprefix('[+]').removesuffix(' ok')}")
            assert (one.status, one.body) == (200, b"ok")
        plain = server.request("GET", f"{path}?verbose=false").body.decode().split("\n")
        assert plain[1 : len(checks) + 1] == checks
        return [first, warning, last, end, plain[0], *plain[-2:]]

    real, ours = servers.on_each(ask)
    assert real == ours


def test_the_index_of_schemas_names_the_same_documents(servers: ServerPair) -> None:
    def ask(server: Server) -> set[str]:
        paths = server.request("GET", "/openapi/v3").json()["paths"]
        assert all("?hash=" in entry["serverRelativeURL"] for entry in paths.values())
        return {root_of(version)[1:] for version in SERVED_VERSIONS} & set(paths)

    real, ours = servers.on_each(ask)
    assert real == ours == {root_of(version)[1:] for version in SERVED_VERSIONS}


@pytest.mark.parametrize("version", SERVED_VERSIONS)
def test_the_schemas_are_the_same(servers: ServerPair, version: str) -> None:
    def ask(server: Server) -> Seen:
        answer = server.request("GET", f"/openapi/v3{root_of(version)}")
        document: dict[str, Any] = answer.json() if answer.status == 200 else {}
        schemas = document.get("components", {}).get("schemas", {})
        return Seen(answer.status, {}, only_served_kinds(schemas))

    real, ours = servers.on_each(ask)
    servers.judge(list(differences(f"the schemas of {version}", f"GET /openapi/v3{root_of(version)}", real, ours)))


@pytest.mark.parametrize("version", SERVED_VERSIONS)
def test_the_operations_are_the_same(servers: ServerPair, version: str) -> None:
    """Path, verb, kind and query parameters: what kubectl looks up. Old watch paths and proxies are left out."""

    def ask(server: Server) -> Seen:
        answer = server.request("GET", f"/openapi/v3{root_of(version)}")
        document: dict[str, Any] = answer.json() if answer.status == 200 else {}
        return Seen(answer.status, {}, dict(_operations(document.get("paths", {}))))

    real, ours = servers.on_each(ask)
    servers.judge(list(differences(f"the operations of {version}", f"GET /openapi/v3{root_of(version)}", real, ours)))


def _operations(paths: dict[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for path, item in paths.items():
        if "/watch/" in path or "/proxy" in path:
            continue
        shared = {each["name"] for each in item.get("parameters", []) if each["in"] == "query"}
        for method, operation in item.items():
            if method == "parameters":
                continue
            own = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
            kind = operation.get("x-kubernetes-group-version-kind")
            told = {
                "action": operation.get("x-kubernetes-action"),
                "kind": kind,
                "query": sorted((shared | own) - {"pretty"}),
            }
            found.append((f"{method} {path}", told))
    return found
