"""GET and LIST: pages, revisions, representations, and the parameters that go with them."""

from __future__ import annotations

from itertools import product

import pytest

from harness.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, SERVICES, config_map, deployment, gated, pod, service
from harness.request_cases import METADATA, METADATA_LIST, TABLE, Case, case, cases_of, delete, get, patch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

THREE = [
    post(CONFIG_MAPS, config_map("alpha", labels={"app": "a"})).named("alpha"),
    post(CONFIG_MAPS, config_map("beta", labels={"app": "b"})).named("beta"),
    post(CONFIG_MAPS, config_map("gamma", labels={"app": "c"})).named("gamma"),
]
REVISIONS = {
    "unset": "",
    "empty": "resourceVersion=",
    "zero": "resourceVersion=0",
    "known": "resourceVersion=${beta:/metadata/resourceVersion}",
    "not a number": "resourceVersion=abc",
    "negative": "resourceVersion=-1",
    "a fraction": "resourceVersion=1.5",
    "beyond 64 bits": "resourceVersion=99999999999999999999999",
}
MATCHES = {
    "unset": "",
    "exact": "resourceVersionMatch=Exact",
    "not older than": "resourceVersionMatch=NotOlderThan",
    "unknown": "resourceVersionMatch=Odd",
}


def query(*parts: str) -> str:
    return "&".join(part for part in parts if part)


LISTING = [
    case(
        f"a list at a revision that is {revision}, match {match}",
        *THREE,
        get(CONFIG_MAPS),  # consistent: after it the real server's watch cache has all three, which revision 0 reads
        get(f"{CONFIG_MAPS}?{query(REVISIONS[revision], MATCHES[match])}"),
        get(f"{CONFIG_MAPS}?{query(REVISIONS[revision], MATCHES[match], 'limit=2')}").named("page"),
        get(f"{CONFIG_MAPS}?{query(REVISIONS[revision], MATCHES[match], 'continue=${page:/metadata/continue}')}"),
    )
    for revision, match in product(REVISIONS, MATCHES)
]
GETTING = [
    case(
        f"a get at a revision that is {name}",
        *THREE,
        get(f"{CONFIG_MAPS}/beta?{text}"),
        get(f"{CONFIG_MAPS}/none?{text}"),
    )
    for name, text in REVISIONS.items()
]
FUTURE = [
    case("a get at a future revision", get(f"{CONFIG_MAPS}/beta?resourceVersion=99999999")),
    case("a list not older than a future revision", get(f"{CONFIG_MAPS}?resourceVersion=99999999")),
    case(
        "a list exactly at a future revision",
        get(f"{CONFIG_MAPS}?resourceVersion=99999999&resourceVersionMatch=Exact"),
    ),
    case(
        "a list of the past",
        *THREE,
        delete(f"{CONFIG_MAPS}/alpha"),
        patch(f"{CONFIG_MAPS}/beta", {"data": {"k": "changed"}}),
        get(f"{CONFIG_MAPS}?resourceVersion=${{beta:/metadata/resourceVersion}}&resourceVersionMatch=Exact"),
        get(f"{CONFIG_MAPS}?resourceVersion=${{gamma:/metadata/resourceVersion}}&resourceVersionMatch=Exact&limit=1"),
        get(f"{CONFIG_MAPS}?resourceVersion=${{alpha:/metadata/resourceVersion}}&resourceVersionMatch=Exact", TABLE),
        get(f"{CONFIG_MAPS}?resourceVersion=${{alpha:/metadata/resourceVersion}}&resourceVersionMatch=NotOlderThan"),
    ),
]
PAGES = [
    case(
        "pages of one, two and three",
        *THREE,
        get(f"{CONFIG_MAPS}?limit=1").named("first"),
        get(f"{CONFIG_MAPS}?limit=1&continue=${{first:/metadata/continue}}").named("second"),
        get(f"{CONFIG_MAPS}?limit=1&continue=${{second:/metadata/continue}}").named("third"),
        get(f"{CONFIG_MAPS}?limit=2").named("pair"),
        get(f"{CONFIG_MAPS}?limit=5&continue=${{pair:/metadata/continue}}"),
        get(f"{CONFIG_MAPS}?continue=${{pair:/metadata/continue}}"),
        get(f"{CONFIG_MAPS}?limit=3"),
        get(f"{CONFIG_MAPS}?limit=500"),
    ),
    case(
        "a page shows the list as it was",
        *THREE,
        get(f"{CONFIG_MAPS}?limit=1").named("first"),
        delete(f"{CONFIG_MAPS}/beta"),
        post(CONFIG_MAPS, config_map("delta")),
        patch(f"{CONFIG_MAPS}/gamma", {"data": {"k": "changed"}}),
        get(f"{CONFIG_MAPS}?continue=${{first:/metadata/continue}}"),
        get(CONFIG_MAPS),
    ),
    case(
        "pages with selectors tell no count of what remains",
        *THREE,
        get(f"{CONFIG_MAPS}?limit=1&labelSelector=app").named("first"),
        get(f"{CONFIG_MAPS}?limit=1&labelSelector=app&continue=${{first:/metadata/continue}}"),
        get(f"{CONFIG_MAPS}?limit=1&labelSelector=app=c"),
        get(f"{CONFIG_MAPS}?limit=1&fieldSelector=metadata.name!=alpha"),
    ),
    case(
        "a page as a table and as metadata",
        *THREE,
        get(f"{CONFIG_MAPS}?limit=2", TABLE).named("table"),
        get(f"{CONFIG_MAPS}?limit=2&continue=${{table:/metadata/continue}}", TABLE),
        get(f"{CONFIG_MAPS}?limit=2", METADATA_LIST),
    ),
    case(
        "a continue token of another list",
        *THREE,
        get(f"{CONFIG_MAPS}?limit=1").named("first"),
        get(f"{PODS}?limit=1&continue=${{first:/metadata/continue}}"),
        get("/api/v1/configmaps?fieldSelector=metadata.namespace={ns}&limit=9&continue=${first:/metadata/continue}"),
        get("/api/v1/namespaces/default/configmaps?continue=${first:/metadata/continue}"),
    ),
    case(
        "a continue token together with a revision",
        *THREE,
        get(f"{CONFIG_MAPS}?limit=1").named("first"),
        get(f"{CONFIG_MAPS}?continue=${{first:/metadata/continue}}&resourceVersion=0"),
        get(
            f"{CONFIG_MAPS}?continue=${{first:/metadata/continue}}&resourceVersion=${{beta:/metadata/resourceVersion}}"
        ),
        get(f"{CONFIG_MAPS}?continue=${{first:/metadata/continue}}&resourceVersionMatch=Exact"),
    ),
    *(
        case(f"a bad continue token, number {number}", *THREE, get(f"{CONFIG_MAPS}?limit=1&continue={token}"))
        for number, token in enumerate(
            [
                "abc",
                "%00",
                "e30",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
                "eyJ2IjoiYSIsInJ2IjoxLCJzdGFydCI6IngifQ",
                "=",
                "e30=",
            ]
        )
    ),
    *(
        case(f"the limit {limit}", *THREE, get(f"{CONFIG_MAPS}?limit={limit}"))
        for limit in ("0", "-1", "abc", "1.5", "", "9223372036854775807", "9223372036854775808", "+1", "1&limit=2")
    ),
]
ACCEPTS = {
    "json": "application/json",
    "anything": "*/*",
    "any application type": "application/*",
    "yaml": "application/yaml",
    "json with a charset": "application/json;charset=utf-8",
    "pretty json": "application/json;pretty=1",
    "html": "text/html",
    "xml": "application/xml",
    "xml or json": "application/xml, application/json;q=0.5",
    "plain text": "text/plain",
    "nonsense": "nonsense",
    "no json at all": "application/json;q=0",
    "an unknown kind": "application/json;as=Odd;v=v1;g=meta.k8s.io",
    "a table of an unknown version": "application/json;as=Table;v=v9;g=meta.k8s.io",
    "a table of an unknown group": "application/json;as=Table;v=v1;g=odd.example",
    "a table or nothing": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "a beta table": "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "what kubectl sends": "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "metadata or nothing": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata list or nothing": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "protobuf or json": "application/vnd.kubernetes.protobuf;q=0.1,application/json",
    "json of a stream": "application/json;stream=watch",
    "as without a version": "application/json;as=Table",
    "a table in yaml": "application/yaml;as=Table;v=v1;g=meta.k8s.io",
}
REPRESENTATIONS = [
    *(
        case(
            f"accepting {name}",
            *THREE,
            get(f"{CONFIG_MAPS}/beta", accept),
            get(CONFIG_MAPS, accept),
            get(f"{CONFIG_MAPS}/none", accept),
            post(f"{CONFIG_MAPS}?dryRun=All", config_map("new"), accept),
            delete(f"{CONFIG_MAPS}/alpha", accept=accept),
        )
        for name, accept in ACCEPTS.items()
    ),
    *(
        case(
            f"a table that includes {include or 'nothing named'}",
            *THREE,
            get(f"{CONFIG_MAPS}?includeObject={include}", TABLE),
            get(f"{CONFIG_MAPS}/beta?includeObject={include}", TABLE),
        )
        for include in ("None", "Metadata", "Object", "Odd", "", "object")
    ),
    case(
        "tables of several kinds",
        post(PODS, pod("plain")),
        post(PODS, gated("held", "example.com/hold")),
        post(PODS, pod("placed", nodeName="node-1")),
        post(SERVICES, service("svc", clusterIP="None")),
        post(DEPLOYMENTS, deployment("dep", replicas=2)),
        *(get(path, TABLE) for path in (PODS, SERVICES, DEPLOYMENTS)),
        get(f"{PODS}/held", TABLE),
    ),
    case(
        "metadata alone of a pod",
        post(PODS, pod("p", {"a": "b"})),
        get(f"{PODS}/p", METADATA),
        get(PODS, METADATA_LIST),
    ),
    case(
        "pretty printing",
        *THREE,
        get(f"{CONFIG_MAPS}/beta?pretty=true"),
        get(f"{CONFIG_MAPS}/beta", User_Agent="Mozilla/5.0"),
        get(f"{CONFIG_MAPS}/beta", User_Agent="curl/8.0"),
    ),
]
PLACES = [
    case("an empty list", get(CONFIG_MAPS), get(CONFIG_MAPS, TABLE), get(CONFIG_MAPS, METADATA_LIST)),
    case("a missing object", get(f"{CONFIG_MAPS}/none"), get(f"{PODS}/none"), get(f"{DEPLOYMENTS}/none", TABLE)),
    case("a namespace that does not exist", get("/api/v1/namespaces/nope/pods"), get("/api/v1/namespaces/nope/pods/p")),
    case("a missing namespace itself", get("/api/v1/namespaces/nope")),
    case("the default namespace", get("/api/v1/namespaces/default/pods")),
    case("no namespace at all", *THREE, get("/api/v1/namespaces//configmaps?fieldSelector=metadata.namespace={ns}")),
    case("lists across namespaces", *THREE, get("/api/v1/configmaps?fieldSelector=metadata.namespace={ns}")),
    case(
        "parameters that mean nothing",
        *THREE,
        *(get(f"{CONFIG_MAPS}/beta{tail}") for tail in ("?", "?odd=1", "?pretty=maybe")),
    ),
]
CASES = cases_of(LISTING, GETTING, FUTURE, PAGES, REPRESENTATIONS, PLACES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reads_are_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
