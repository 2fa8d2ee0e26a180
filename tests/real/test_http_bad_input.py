"""Hostile and broken requests: bodies, types, paths, parameters, methods. Nothing here may be a 500 or a hang."""

from __future__ import annotations

import json

import pytest

from harness.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, pod
from harness.request_cases import Case, Step, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

HEAD = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}'
BODIES: dict[str, str | bytes] = {
    "empty": "",
    "a blank": " ",
    "half an object": '{"apiVersion":',
    "a list": "[]",
    "null": "null",
    "a number": "1",
    "a string": '"x"',
    "a comma too many": HEAD + ",}",
    "two objects": HEAD + "}" + HEAD + "}",
    "rubbish after it": HEAD + "} x",
    "a comment": HEAD + "/* no */}",
    "single quotes": "{'apiVersion':'v1'}",
    "NaN": HEAD + ',"data":{"a":NaN}}',
    "Infinity": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generation":Infinity}}',
    "a huge number": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generation":1e999}}',
    "a big integer": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generation":99999999999999999999}}',
    "a float for an integer": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generation":1.5}}',
    "bytes that are no text": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"\xff\xfe"}}',
    "a lone surrogate": HEAD + ',"data":{"a":"\\ud800"}}',
    "a null character": HEAD + ',"data":{"a":"\\u0000"}}',
    "a raw control character": HEAD + ',"data":{"a":"\x01"}}',
    "a byte order mark": "\ufeff" + HEAD + "}",
    "duplicate keys": HEAD + ',"data":{"a":"1"},"data":{"b":"2"}}',
    "a kind of another group": '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}',
    "an unknown version": '{"apiVersion":"v9","kind":"ConfigMap","metadata":{"name":"x"}}',
    "an unknown kind": '{"apiVersion":"v1","kind":"Odd","metadata":{"name":"x"}}',
    "a version of three parts": '{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"x"}}',
    "a number for a version": '{"apiVersion":1,"kind":"ConfigMap"}',
    "a list of objects": '{"apiVersion":"v1","kind":"ConfigMapList","items":[]}',
    "a list of anything": '{"apiVersion":"v1","kind":"List","items":[]}',
    "metadata that is a list": '{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}',
    "metadata that is text": '{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}',
    "a name that is a number": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":1}}',
    "deep nesting in an unknown field": HEAD + ',"odd":' + "[" * 9000 + "]" * 9000 + "}",
    "deeper nesting than any parser takes": HEAD + ',"odd":' + "[" * 20000 + "]" * 20000 + "}",
    "base64 that is none": HEAD + ',"binaryData":{"a":"%%%"}}',
    "a key with a blank": HEAD + ',"data":{"a b":"1"}}',
    "a key of dots": HEAD + ',"data":{"..":"1"}}',
    "a key that is empty": HEAD + ',"data":{"":"1"}}',
    "a key that is long": HEAD + ',"data":{"' + "k" * 254 + '":"1"}}',
    "the same key in both maps": HEAD + ',"data":{"a":"1"},"binaryData":{"a":"MQ=="}}',
}
YAMLS = {
    "broken": "a: [b",
    "tabs": "a:\n\t- b",
    "two documents": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\na: b\n",
    "an anchor and an alias": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: &a '1', b: *a}\n",
    "an unknown alias": "a: *nothing",
    "a tag": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: !!binary MQ==}\n",
    "a python tag": "!!python/object/apply:os.system ['true']",
    "a bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)),
    "merge keys": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  <<: {a: '1'}\n  b: '2'\n",
    "a key that is a number": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {1: a, true: b}\n",
    "octal and dates": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 0777, b: 2020-01-01}\n",
    "empty": "",
    "a comment alone": "# nothing\n",
    "json in yaml": HEAD + "}",
    "bytes that are no text": b"a: \xff\xfe",
}
POST_TYPES = [
    "text/plain",
    "application/xml",
    "application/octet-stream",
    "application/json;charset=utf-8",
    "application/json; odd",
    "multipart/form-data",
    "application/x-www-form-urlencoded",
    "APPLICATION/JSON",
    "application/merge-patch+json",
    "application/cbor",
    "*/*",
    "json",
]
PATHS = [
    *(
        "/apis/odd.example/v1/things",
        "/api/v1/odds",
        "/api/v1/namespaces/default/odds",
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
    ),
    *(
        "/odd",
        "/favicon.ico",
        "/api/",
        "/apis/",
        "/api/v1/",
        "/apis/apps/",
        "/apis/apps/v1/",
        "/api/v1/namespaces/?fieldSelector=metadata.name%3Ddefault",
        "/api/v1/namespaces/default/",
        "/api/v1/namespaces/default/pods/",
    ),
    *(
        "//api/v1/pods",
        "/api//v1/namespaces/default/pods",
        "/api/v1//namespaces/default",
        "/api/v1/namespaces/default//pods",
    ),
    *(
        "/api/v1/../../etc/passwd",
        "/api/v1/namespaces/../pods",
        "/api/v1/namespaces/%2e%2e/pods",
        "/api/v1/namespaces/default/pods/..",
        "/api/v1/namespaces/default/pods/.",
        "/api/v1/namespaces/default/pods/%2e%2e%2fsecrets",
    ),
    *(
        "/api/v1/namespaces/default/pods/a%2Fb",
        "/api/v1/namespaces/default/pods/%00",
        "/api/v1/namespaces/default/pods/%ff",
        "/api/v1/namespaces/default/pods/%20",
        "/api/v1/namespaces/default/pods/a%25b",
        "/api/v1/namespaces/default/pods/%C3%A4",
    ),
    *(
        "/api/v1/namespaces/def%61ult/pods/none",
        "/%61pi/v1/namespaces/default/pods/none",
        "/API/v1/pods",
        "/api/V1/pods",
        "/api/v1/Pods",
        "/api/v1/namespaces/DEFAULT/pods",
    ),
    *(
        "/api/v1/pods/none",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/nodes/none/pods",
        "/apis/v1/pods",
        "/apis/apps/v1/namespaces/default/deployments/none/odd",
        "/api/v1/pod",
        "/api/v1/namespaces/default/pods/none/log/more",
    ),
    *(
        "/api/v1/proxy/namespaces/default/pods/none",
        "/healthz/odd",
        "/version/",
        "/livez/ping",
        "/metrics/odd",
        "/swagger.json",
        "/openapi",
        "/openapi/v3/odd",
        "/index.html/odd",
        "/api/v1/namespaces/default/pods/" + "x" * 300,
    ),
]
METHODS = [
    *(("POST", "/api/v1"), ("PUT", "/apis"), ("DELETE", "/api"), ("PATCH", "/version"), ("POST", "/healthz")),
    *(
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/none"),
    ),
    *(
        ("PUT", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods/none"),
        ("PATCH", "/api/v1/pods"),
        ("DELETE", "/api/v1/namespaces/{ns}/services"),
    ),
    *(
        ("HEAD", "/api/v1/namespaces/default"),
        ("HEAD", "/api/v1/namespaces/default/pods"),
        ("HEAD", "/version"),
        ("HEAD", "/api/v1/namespaces/nope"),
    ),
    *(
        ("OPTIONS", "/api/v1/namespaces/default/pods"),
        ("OPTIONS", "/api"),
        ("OPTIONS", "*"),
        ("TRACE", "/api/v1/pods"),
        ("CONNECT", "/api/v1/pods"),
    ),
    *(
        ("POST", "/api/v1/namespaces/default/pods/none/status"),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/none/scale"),
        ("PUT", "/api/v1/namespaces/default/pods/none/binding"),
    ),
]
QUERIES = [
    *(
        "limit=-1",
        "limit=x",
        "timeoutSeconds=x",
        "timeoutSeconds=-1",
        "resourceVersion=x",
        "pretty=x",
        "allowWatchBookmarks=x",
    ),
    *(
        "%zz=1",
        "limit=%zz",
        "a;b=c",
        "limit=1;watch=1",
        "&&&",
        "=",
        "limit",
        "limit=1&limit=2",
        "labelSelector=%00",
        "fieldSelector=%ff",
        "x" * 4000 + "=1",
    ),
    *(
        "limit=0x10",
        "limit=1e3",
        "limit=%201",
        "limit=%2B1",
        "continue=%7B%7D",
        "resourceVersion=00",
        "resourceVersion=%2B1",
        "timeout=x",
        "timeout=1s",
        "timeout=-1s",
        "timeout=1",
    ),
]
BAD_BODIES = [
    *(
        case(f"a body: {name}", post(CONFIG_MAPS, body), post(f"{CONFIG_MAPS}?fieldValidation=Strict", body))
        for name, body in BODIES.items()
    ),
    *(
        case(f"a yaml body: {name}", post(CONFIG_MAPS, body, Content_Type="application/yaml"))
        for name, body in YAMLS.items()
    ),
    *(case(f"a body sent as {kind}", post(CONFIG_MAPS, HEAD + "}", Content_Type=kind)) for kind in POST_TYPES),
    case("a body without a type", Step("POST", CONFIG_MAPS, HEAD + "}", {"Content-Type": ""})),
    case(
        "an update with a broken body",
        post(CONFIG_MAPS, config_map("x")),
        put(f"{CONFIG_MAPS}/x", "{"),
        put(f"{CONFIG_MAPS}/x", ""),
        put(f"{CONFIG_MAPS}/x", "null"),
        put(f"{CONFIG_MAPS}/x", "{}"),
    ),
    case("a body of three megabytes and more", post(CONFIG_MAPS, config_map("x", {"a": "x" * (3 * 1024 * 1024 + 1)}))),
    case(
        "a body of more than a megabyte",
        post(CONFIG_MAPS, config_map("x", {"a": "x" * (1024 * 1024 + 1)})),
        post(CONFIG_MAPS, config_map("y", {"a": "x" * (1024 * 1024)})),
    ),
    case(
        "a patch of more than three megabytes",
        post(CONFIG_MAPS, config_map("x")),
        patch(f"{CONFIG_MAPS}/x", {"data": {"a": "x" * (3 * 1024 * 1024 + 1)}}),
    ),
    case(
        "delete options of more than three megabytes",
        post(CONFIG_MAPS, config_map("x")),
        delete(f"{CONFIG_MAPS}/x", {"odd": "x" * (3 * 1024 * 1024 + 1)}),
    ),
    case(
        "a long list of containers",
        post(f"{PODS}?dryRun=All", pod("p", containers=[{"name": f"c{n}", "image": "i"} for n in range(400)])),
    ),
    case(
        "a long list of gates",
        post(f"{PODS}?dryRun=All", pod("p", schedulingGates=[{"name": f"g{n}"} for n in range(2000)])),
    ),
    case(
        "very many errors",
        post(PODS, pod("p", containers=[{"name": "Bad", "image": ""} for n in range(40)])).in_any_order(),
    ),
    case("very many labels", post(CONFIG_MAPS, config_map("x", labels={f"k{n}": str(n) for n in range(2000)}))),
    case(
        "deep nesting where any depth is allowed",
        post(
            "/apis/apps/v1/namespaces/{ns}/controllerrevisions",
            '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"x"},"revision":1,"data":'
            + '{"a":' * 120
            + "1"
            + "}" * 120
            + "}",
        ),
    ),
    case(
        "a patch that nests deeply",
        post(DEPLOYMENTS, json.dumps({"apiVersion": "apps/v1"})),
        post(CONFIG_MAPS, config_map("x")),
        patch(f"{CONFIG_MAPS}/x", '{"metadata":' * 300 + "1" + "}" * 300),
    ),
    case(
        "odd characters where they are allowed",
        post(CONFIG_MAPS, config_map("x", {"a": "ä € 😀 \u2028 <>&"})),
        get(f"{CONFIG_MAPS}/x"),
    ),
]
BAD_PATHS = [
    *(case(f"the path {path[:60]}", get(path)) for path in PATHS),
    *(
        case(f"the method {method} on {path}", Step(method, path, "{}" if method in ("POST", "PUT", "PATCH") else None))
        for method, path in METHODS
    ),
    *(case(f"the query {query[:30]}", get(f"{CONFIG_MAPS}?{query}")) for query in QUERIES),
]
HEADERS = [
    case("a watch of an object that does not exist", get(f"{CONFIG_MAPS}/none?watch=true&timeoutSeconds=1")),
    case("an upgrade that nobody asked for", get(CONFIG_MAPS, Connection="Upgrade", Upgrade="odd")),
    case(
        "conditional headers",
        post(CONFIG_MAPS, config_map("x")),
        get(f"{CONFIG_MAPS}/x", If_None_Match='"x"', If_Modified_Since="Sun, 15 Nov 2026 00:00:00 GMT"),
    ),
    case("an encoding nobody knows", get(CONFIG_MAPS, Accept_Encoding="odd")),
    case("a body in a get", Step("GET", CONFIG_MAPS, "{}")),
]
CASES = cases_of(BAD_BODIES, BAD_PATHS, HEADERS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_refused_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
