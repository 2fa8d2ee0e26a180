"""Requests by what a client may choose the size of: one row for each dimension, with the size to begin with.

A row makes, for a size, the requests that prepare the server and the request whose cost is measured. A new field, query
parameter or body format that grows with what a client sends is a new row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from embedded import TOKEN
from headgate.apiserver.request.messages import ServerRequest

Object = dict[str, Any]
Sized = tuple[list[ServerRequest], ServerRequest]
Row = tuple[int, Callable[[int], Sized]]

JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY, YAML = "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/yaml"

IN_T = "/api/v1/namespaces/t"
MAPS, PODS, SERVICES, NODES = f"{IN_T}/configmaps", f"{IN_T}/pods", f"{IN_T}/services", "/api/v1/nodes"
DEPLOYMENTS, JOBS = "/apis/apps/v1/namespaces/t/deployments", "/apis/batch/v1/namespaces/t/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/t/cronjobs"
DEFINITIONS, FOOS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/x.io/v1/namespaces/t/foos"
RBAC, ADMISSION = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
STORAGE, NETWORKING = "/apis/storage.k8s.io/v1", "/apis/networking.k8s.io/v1/namespaces/t"


def send(method: str, path: str, body: Any = None, how: str = "application/json", **query: str) -> ServerRequest:
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": how, "user-agent": "test/1"}
    return ServerRequest(method, path, urlencode(query), headers, data)


def accepting(request: ServerRequest, media_type: str, **more: str) -> ServerRequest:
    return msgspec.structs.replace(request, headers={**request.headers, "accept": media_type, **more})


def create(path: str, body: Any, **query: str) -> Sized:
    return [], send("POST", path, body, **query)


def change(path: str, before: Any, patch: Any, how: str, at: str = "/a", **query: str) -> Sized:
    return [send("POST", path, before)], send("PATCH", path + at, patch, how, **query)


def applied(path: str, first: Any, second: Any) -> Sized:
    return [send("PATCH", path + "/a", first, APPLY, fieldManager="m")], send(
        "PATCH", path + "/a", second, APPLY, fieldManager="m"
    )


def listed(**query: str) -> Sized:
    return [], send("GET", MAPS, **query)


def raw_query(text: str, method: str = "GET") -> Sized:
    return [], msgspec.structs.replace(send(method, MAPS, {} if method == "POST" else None), query=text)


def named(**metadata: Any) -> Object:
    return {"metadata": {"name": "a", **metadata}}


def a_map(keys: int, first: int = 0, value: str = "v", **metadata: Any) -> Object:
    data = {f"k{i}": value for i in range(first, first + keys)}
    return {"apiVersion": "v1", "kind": "ConfigMap", **named(**metadata), "data": data}


def a_pod(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **named(),
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def container(**fields: Any) -> Object:
    return a_pod(containers=[{"name": "c", "image": "i", **fields}])


def containers(n: int, image: str = "i", **fields: Any) -> list[Object]:
    return [{"name": f"c{i}", "image": image, **fields} for i in range(n)]


def environment(n: int, value: str = "v") -> list[Object]:
    return [{"name": f"E{i}", "value": value} for i in range(n)]


def owner(i: int, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}", **fields}


def owners(n: int, first: int = 0) -> list[Object]:
    return [owner(i) for i in range(first, first + n)]


def manager(i: int, operation: str = "Update", fields: Object | None = None) -> Object:
    owned = {"f:data": {f"f:k{i}": {}}} if fields is None else fields
    return {
        "manager": f"m{i}",
        "operation": operation,
        "apiVersion": "v1",
        "time": "2020-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }


def condition(i: int) -> Object:
    return {"type": f"T{i}", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "R"}


def conditions(n: int, first: int = 0) -> Object:
    return {"status": {"conditions": [condition(i) for i in range(first, first + n)]}}


def a_deployment(spec: Object, **fields: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return {**named(), "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **fields}}


def a_job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {**named(), "spec": {"template": template, **spec}}


def a_cron_job(schedule: str) -> Object:
    return {**named(), "spec": {"schedule": schedule, "jobTemplate": {"spec": a_job()["spec"]}}}


def a_service(**spec: Any) -> Object:
    return {**named(), "spec": {"selector": {"a": "b"}, "ports": [{"port": 1}], **spec}}


def ports(n: int) -> list[Object]:
    return [{"name": f"p{i}", "port": i + 1} for i in range(n)]


def an_object(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


def texts(n: int, **more: Any) -> Object:
    return an_object(**{f"p{i}": {"type": "string", **more} for i in range(n)})


def a_list(kind: str, item: Object, *keys: str) -> Object:
    given: Object = {"type": "array", "x-kubernetes-list-type": kind, "items": item}
    return {**given, "x-kubernetes-list-map-keys": list(keys)} if keys else given


def a_definition(schema: Object, **version: Any) -> Object:
    names = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "metadata": {"name": "foos.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [served]},
    }


def foo(spec: Any) -> Object:
    return {"apiVersion": "x.io/v1", "kind": "Foo", **named(), "spec": spec}


def custom(schema: Object, spec: Any, **query: str) -> Sized:
    body = spec if isinstance(spec, bytes) else foo(spec)
    return [send("POST", DEFINITIONS, a_definition(an_object(spec=schema)))], send("POST", FOOS, body, **query)


def custom_change(schema: Object, before: Any, after: Any) -> Sized:
    setup, first = custom(schema, before)
    return [*setup, first], send("PATCH", f"{FOOS}/a", {"spec": after}, MERGE)


def custom_apply(schema: Object, before: Any, after: Any) -> Sized:
    setup, _ = custom(schema, {})
    first = send("PATCH", f"{FOOS}/a", foo(before), APPLY, fieldManager="m")
    return [*setup, first], send("PATCH", f"{FOOS}/a", foo(after), APPLY, fieldManager="m")


def deep(n: int, leaf: bytes, key: bytes = b"k" * 50) -> bytes:
    return b'{"%s":' % key * n + leaf + b"}" * n


def deep_schema(n: int, wrap: Callable[[Object], Object]) -> Object:
    schema: Object = {"type": "string"}
    for _ in range(n):
        schema = wrap(schema)
    return an_object(a=schema)


def rules(n: int, **fields: Any) -> list[Object]:
    return [{"apiGroups": [""], "resources": [f"r{i}"], "verbs": ["get"], **fields} for i in range(n)]


def a_binding(role: str, *subjects: Object) -> Object:
    group = "rbac.authorization.k8s.io"
    return {
        **named(),
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", **each} for each in subjects],
    }


def granted(n: int, wanted: list[Object]) -> Sized:
    """A user that is no administrator and has ``n`` rules writes a role with ``wanted``."""
    may = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}
    setup = [
        send("POST", f"{RBAC}/clusterroles", {**named(), "rules": [*rules(n), may]}),
        send("POST", f"{RBAC}/clusterrolebindings", a_binding("a", {"name": "u"})),
    ]
    request = send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "b"}, "rules": wanted})
    return setup, accepting(request, "application/json", **{"impersonate-user": "u"})


def webhook(i: int = 0, **fields: Any) -> Object:
    rule = {"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["y"]}
    return {
        "name": f"h{i}.x.io",
        "clientConfig": {"url": "https://x.io/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
        **fields,
    }


def many(n: int, path: str, **more: Any) -> list[ServerRequest]:
    return [send("POST", path, {"metadata": {"name": f"m{i}", "labels": {"a": f"b{i}"}}, **more}) for i in range(n)]


def finalizers(n: int, first: int = 0) -> list[str]:
    return [f"a.b/f{i}" for i in range(first, first + n)]


def selecting(**selector: Any) -> Object:
    return a_deployment({}, selector={"matchLabels": {"a": "b"}, **selector})


METADATA: dict[str, Row] = {
    "labels": (500, lambda n: create(MAPS, named(labels={f"k{i}": "v" for i in range(n)}))),
    "labels that are invalid": (300, lambda n: create(MAPS, named(labels={f"k{i}": "v v" for i in range(n)}))),
    "annotations": (500, lambda n: create(MAPS, named(annotations={f"k{i}": "v" for i in range(n)}))),
    "the length of a name": (20_000, lambda n: create(MAPS, {"metadata": {"name": "a" * n}})),
    "the length of a label key": (20_000, lambda n: create(MAPS, named(labels={"a/" * n: "b"}))),
    "finalizers": (500, lambda n: create(MAPS, named(finalizers=finalizers(n)))),
    "finalizers in a strategic patch": (
        400,
        lambda n: change(
            MAPS,
            named(finalizers=finalizers(n)),
            {"metadata": {"$setElementOrder/finalizers": finalizers(2 * n), "finalizers": finalizers(n, n)}},
            STRATEGIC,
        ),
    ),
    "finalizers taken off by a strategic patch": (
        400,
        lambda n: change(
            MAPS,
            named(finalizers=finalizers(n)),
            {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers(n)}},
            STRATEGIC,
        ),
    ),
    "finalizers in another order by apply": (
        300,
        lambda n: applied(MAPS, a_map(1, finalizers=finalizers(n)), a_map(1, finalizers=finalizers(n)[::-1])),
    ),
    "owner references": (300, lambda n: create(MAPS, named(ownerReferences=owners(n)))),
    "owner references given twice": (300, lambda n: create(MAPS, named(ownerReferences=owners(n) * 2))),
    "owner references that are all controllers": (
        200,
        lambda n: create(MAPS, named(ownerReferences=[owner(i, controller=True) for i in range(n)])),
    ),
    "owner references in an update": (
        300,
        lambda n: change(
            MAPS, named(ownerReferences=owners(n)), {"metadata": {"ownerReferences": owners(n, 1)}}, MERGE
        ),
    ),
    "owner references in apply": (
        200,
        lambda n: applied(MAPS, a_map(1, ownerReferences=owners(n)), a_map(1, ownerReferences=owners(n, 1))),
    ),
    "managed fields of updates": (200, lambda n: create(MAPS, named(managedFields=[manager(i) for i in range(n)]))),
    "managed fields of appliers": (
        200,
        lambda n: create(MAPS, named(managedFields=[manager(i, "Apply") for i in range(n)])),
    ),
    "fields of one manager": (
        500,
        lambda n: create(
            MAPS, a_map(n, managedFields=[manager(0, fields={"f:data": {f"f:k{i}": {} for i in range(n)}})])
        ),
    ),
    "the depth of managed fields": (
        300,
        lambda n: create(
            MAPS,
            b'{"metadata":{"name":"a","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1",'
            b'"fieldsType":"FieldsV1","fieldsV1":%s}]}}' % deep(n, b"{}", b"f:" + b"k" * 50),
        ),
    ),
    "managers whose fields an applier takes": (
        150,
        lambda n: (
            [send("POST", MAPS, a_map(n, managedFields=[manager(i, "Apply") for i in range(n)]))],
            send("PATCH", f"{MAPS}/a", a_map(n, value="w"), APPLY, fieldManager="z", force="true"),
        ),
    ),
    "managers whose fields an applier conflicts with": (
        150,
        lambda n: (
            [send("POST", MAPS, a_map(n, managedFields=[manager(i, "Apply") for i in range(n)]))],
            send("PATCH", f"{MAPS}/a", a_map(n, value="w"), APPLY, fieldManager="z"),
        ),
    ),
    "the configuration that kubectl applied last": (
        300,
        lambda n: (
            [
                send(
                    "POST",
                    MAPS,
                    a_map(n, annotations={"kubectl.kubernetes.io/last-applied-configuration": json.dumps(a_map(n))}),
                    fieldManager="kubectl-client-side-apply",
                )
            ],
            send("PATCH", f"{MAPS}/a", a_map(n), APPLY, fieldManager="kubectl"),
        ),
    ),
    "changes of the configuration that kubectl applied last": (
        1_000,
        lambda n: (
            [
                send(
                    "POST",
                    MAPS,
                    a_map(n, annotations={"kubectl.kubernetes.io/last-applied-configuration": json.dumps(a_map(n))}),
                    fieldManager="kubectl-client-side-apply",
                )
            ],
            send("PATCH", f"{MAPS}/a", a_map(n, value="w"), APPLY, fieldManager="kubectl"),
        ),
    ),
}

BODIES: dict[str, Row] = {
    "keys of data": (600, lambda n: create(MAPS, a_map(n))),
    "keys of data that are invalid": (
        300,
        lambda n: create(MAPS, {**named(), "data": {f"k {i}": "v" for i in range(n)}}),
    ),
    "keys of a Secret": (
        500,
        lambda n: create(f"{IN_T}/secrets", {**named(), "data": {f"k{i}": "dg==" for i in range(n)}}),
    ),
    "unknown fields": (500, lambda n: create(MAPS, {**named(), **{f"x{i}": 1 for i in range(n)}})),
    "unknown fields of a custom object": (
        400,
        lambda n: custom(an_object(a={"type": "string"}), {f"k{i}": i for i in range(n)}, fieldValidation="Warn"),
    ),
    "fields given twice": (
        300,
        lambda n: create(
            MAPS,
            b'{"metadata":{"name":"a"},"data":{%s}}' % b",".join(b'"k%d":"v","k%d":"w"' % (i, i) for i in range(n)),
        ),
    ),
    "the depth of unknown fields": (
        300,
        lambda n: create(MAPS, b'{"metadata":{"name":"a"},"x":%s}' % deep(n, b'{"a":1,"a":2}')),
    ),
    "digits of a number": (
        2_000,
        lambda n: custom(
            {"type": "integer"},
            b'{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"a"},"spec":%s}' % (b"1" * n),
        ),
    ),
    "lines of YAML": (
        200,
        lambda n: (
            [],
            send(
                "POST",
                MAPS,
                ("metadata: {name: a}\ndata:\n" + "".join(f"  k{i}: v\n" for i in range(n))).encode(),
                YAML,
            ),
        ),
    ),
    "keys of YAML given twice": (
        150,
        lambda n: (
            [],
            send(
                "PATCH",
                f"{MAPS}/a",
                (
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
                    + "".join(f"  k{i}: v\n  k{i}: w\n" for i in range(n))
                ).encode(),
                APPLY,
                fieldManager="m",
            ),
        ),
    ),
    "anchors of YAML": (
        100,
        lambda n: (
            [],
            send(
                "POST",
                MAPS,
                (
                    "metadata: {name: a}\ndata:\n" + "".join(f"  k{i}: &a{i} v\n  l{i}: *a{i}\n" for i in range(n))
                ).encode(),
                YAML,
            ),
        ),
    ),
    "operations of a JSON patch": (
        300,
        lambda n: change(
            MAPS, a_map(1), [{"op": "add", "path": f"/data/x{i}", "value": "v"} for i in range(n)], JSON_PATCH
        ),
    ),
    "insertions into a list by a JSON patch": (
        200,
        lambda n: change(
            MAPS,
            named(finalizers=["a.b/c"]),
            [{"op": "add", "path": "/metadata/finalizers/0", "value": f"a.b/f{i}"} for i in range(n)],
            JSON_PATCH,
        ),
    ),
    "moves of a JSON patch": (
        200,
        lambda n: change(
            MAPS,
            a_map(n),
            [{"op": "move", "from": f"/data/k{i}", "path": f"/data/x{i}"} for i in range(n)],
            JSON_PATCH,
        ),
    ),
    "keys of a merge patch": (500, lambda n: change(MAPS, a_map(n), {"data": dict.fromkeys(a_map(n)["data"])}, MERGE)),
    "keys of a strategic patch": (
        400,
        lambda n: change(MAPS, a_map(n), {"data": a_map(n, value="w")["data"]}, STRATEGIC),
    ),
    "fields of an apply configuration": (500, lambda n: applied(MAPS, a_map(n), a_map(n, n // 2))),
    "conflicts of an apply configuration": (
        400,
        lambda n: (
            [send("POST", MAPS, a_map(n))],
            send("PATCH", f"{MAPS}/a", a_map(n, value="w"), APPLY, fieldManager="m"),
        ),
    ),
}

QUERIES: dict[str, Row] = {
    "query parameters": (1_000, lambda n: raw_query("&".join(f"a{i}=b" for i in range(n)))),
    "values of one query parameter": (1_000, lambda n: raw_query("&".join(["labelSelector=b"] * n))),
    "values of dryRun": (1_000, lambda n: raw_query("&".join(f"dryRun=x{i}" for i in range(n)), "POST")),
    "requirements of a label selector": (
        1_000,
        lambda n: listed(labelSelector=",".join(f"a{i}!=b" for i in range(n))),
    ),
    "requirements of a label selector on one key": (
        1_000,
        lambda n: listed(labelSelector=",".join(f"a!=b{i}" for i in range(n))),
    ),
    "values of a label selector": (
        1_000,
        lambda n: listed(labelSelector="a in (" + ",".join(f"b{i}" for i in range(n)) + ")"),
    ),
    "terms of a field selector": (
        1_000,
        lambda n: listed(fieldSelector=",".join(f"metadata.name!=b{i}" for i in range(n))),
    ),
    "escapes in a field selector": (2_000, lambda n: listed(fieldSelector="metadata.name=" + "\\," * n)),
    "digits of limit": (20_000, lambda n: listed(limit="1" * n)),
    "digits of resourceVersion": (20_000, lambda n: listed(resourceVersion="1" * n)),
    "the length of a continue token": (20_000, lambda n: listed(**{"continue": "a" * n})),
    "parts of timeout": (2_000, lambda n: listed(timeout="1s" * n)),
    "digits of timeout": (20_000, lambda n: listed(timeout="1" * n + "s")),
    "the length of a path": (20_000, lambda n: ([], send("GET", f"{MAPS}/{'a' * n}"))),
    "segments of a path": (10_000, lambda n: ([], send("GET", MAPS + "/a" * n))),
    "clauses of Accept": (
        2_000,
        lambda n: ([], accepting(send("GET", MAPS), ",".join(f"a/b{i};q=0.1" for i in range(n)))),
    ),
    "objects in a list": (100, lambda n: (many(n, MAPS), send("GET", MAPS, labelSelector="a!=b"))),
    "objects in a list of pages of one": (
        100,
        lambda n: (many(n, MAPS), send("GET", MAPS, labelSelector="a=x", limit="1")),
    ),
    "objects in a Table": (
        60,
        lambda n: (
            many(n, PODS, spec=a_pod()["spec"]),
            accepting(send("GET", PODS), "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ),
    ),
    "objects in a list of metadata": (
        60,
        lambda n: (
            many(n, MAPS),
            accepting(send("GET", MAPS), "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        ),
    ),
    "objects in a list in YAML": (40, lambda n: (many(n, MAPS), accepting(send("GET", MAPS), YAML))),
    "objects deleted at once": (60, lambda n: (many(n, MAPS), send("DELETE", MAPS))),
}
