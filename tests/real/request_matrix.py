"""The requests of the matrix: HTTP methods by path forms, the objects they are about, and one server as they meet it.

`test_request_matrix.py` sends each request as each user to a real and to the embedded server and compares the status
codes and the objects that are left.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.objects import config_map, deployment, labelled, pod
from harness.server import Server
from harness.users import EDITOR, TOKEN, VIEWER, bearing

Object = dict[str, Any]
State = dict[str, Object]

NAMESPACE = "matrix"
SPARE = "matrix-spare"
"""The namespace that requests for namespaces are about, so that the other one stays."""
METHODS = ("GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "POST", "PUT", "PATCH", "DELETE")
QUIET = frozenset(METHODS[:6])
GROUP = "matrix.example.com"
CHANGE = {"metadata": {"labels": {"changed": "yes"}}}
_BODIES = frozenset({"POST", "PUT", "PATCH"})
_MERGE_PATCH = "application/merge-patch+json"


_RBAC_VERSION = "rbac.authorization.k8s.io/v1"
_RBAC = f"/apis/{_RBAC_VERSION}"
_ROLES = {"view": ["get", "list", "watch"], "edit": ["create", "delete", "deletecollection", "patch", "update"]}


def _bound(user: str, cluster_role: str) -> Object:
    group, _, _ = _RBAC_VERSION.partition("/")
    return _named(
        _RBAC_VERSION,
        "ClusterRoleBinding",
        f"matrix-{user}-{cluster_role}",
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": cluster_role},
        subjects=[{"apiGroup": group, "kind": "User", "name": user}],
    )


def _named(api_version: str, kind: str, name: str, **rest: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}


def custom_definition(kind: str, plural: str, scope: str) -> Object:
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    replicas = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": open_object},
        "subresources": {"status": {}, "scale": replicas},
    }
    return _named(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{GROUP}",
        spec={
            "group": GROUP,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    )


DEFINITIONS = (custom_definition("Widget", "widgets", "Namespaced"), custom_definition("Gadget", "gadgets", "Cluster"))


@dataclass(frozen=True)
class Resource:
    """One kind: where it is, what exists of it (``x`` and ``y``), and its subresources with a body for each."""

    root: str
    plural: str
    namespaced: bool
    manifest: Object
    subresources: Mapping[str, Object | None] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return f"{self.root}/namespaces/{NAMESPACE}/{self.plural}" if self.namespaced else f"{self.root}/{self.plural}"

    def named(self, name: str) -> Object:
        return {**self.manifest, "metadata": {**self.manifest["metadata"], "name": name}}


_SCALE = _named("autoscaling/v1", "Scale", "x", spec={"replicas": 3})
_TARGET = {"apiVersion": "v1", "kind": "Node", "name": "x"}
CONFIG_MAPS = Resource("/api/v1", "configmaps", True, config_map("x"))
PODS = Resource(
    "/api/v1",
    "pods",
    True,
    pod("x"),
    {
        "status": None,
        "binding": _named("v1", "Binding", "x", target=_TARGET),
        "eviction": _named("policy/v1", "Eviction", "x"),
        "ephemeralcontainers": None,
        "log": {},
        "exec": {},
        "proxy": {},
        "proxy/a/b": {},
    },
)
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments", True, deployment("x"), {"status": None, "scale": _SCALE})
NODES = Resource("/api/v1", "nodes", False, _named("v1", "Node", "x"), {"status": None, "proxy": {}})
CLASSES = Resource(
    "/apis/storage.k8s.io/v1",
    "storageclasses",
    False,
    _named("storage.k8s.io/v1", "StorageClass", "x", provisioner="example.com/p"),
)
WIDGETS = Resource(
    f"/apis/{GROUP}/v1",
    "widgets",
    True,
    _named(f"{GROUP}/v1", "Widget", "x", spec={"replicas": 1}),
    {"status": None, "scale": _SCALE},
)
GADGETS = Resource(f"/apis/{GROUP}/v1", "gadgets", False, _named(f"{GROUP}/v1", "Gadget", "x"), {"status": None})
KEPT = (CONFIG_MAPS, PODS, DEPLOYMENTS, NODES, CLASSES, WIDGETS, GADGETS)


@dataclass(frozen=True)
class Form:
    """One path, with what is sent to it by the methods that send something."""

    path: str
    posted: Object
    put: Object
    streams: bool = False


def forms_of(resource: Resource) -> list[Form]:
    root, plural, base = resource.root, resource.plural, resource.base
    below = base.removeprefix(root)
    inside = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    api, version = root.rsplit("/", 1)
    paths = [
        base,
        f"{base}/",
        f"{base}//",
        f"{base}/x",
        f"{base}/x/",
        f"{base}/x//",
        f"{base}/missing",
        f"{base}//x",
        f"/{base}",
        f"/{base}/x",
        f"{api}//{version}{below}/x",
        f"{root}/{below}/x",
        f"{root}{inside}//{plural}",
        f"{base}/x/odd",
        f"{base}/x/odd/deeper",
        f"{base}//status",
        f"{base}/x//",
        f"{base}/x%2Fstatus",
        f"{base}%2Fx",
        f"{base}/.",
        f"{base}/%2E%2E",
        f"{root}/proxy{below}/x",
        f"{root}/proxy{below}/x/status",
        f"{root}/Watch{below}/x",
        f"{base.upper()}/x",
        *(f"{base}/x/{each}" for each in resource.subresources),
        *(f"{base}/missing/{each}" for each in resource.subresources),
        *(f"{base}/x/{each}/" for each in resource.subresources),
    ]
    streams = [
        f"{root}/watch{below}",
        f"{root}/watch{below}/",
        f"{root}/watch{below}/x",
        f"{root}/watch{below}/x/",
        f"{root}/watch{below}/x/status",
        f"{root}/watch{below}/x/odd",
        f"{root}/watch{below}//x",
        f"{root}/watch/{below}/x",
        f"{root}//watch{below}/x",
        f"{root}/watch/watch{below}/x",
        f"{root}/watch/{plural}",
        f"{root}/watch/{plural}/x",
        f"{base}?watch=true",
        f"{base}/x?watch=true",
        f"{base}?watch=true&fieldSelector=metadata.name%3Dx",
        f"{root}/watch{below}/x?fieldSelector=metadata.name%3Dy",
    ]
    if resource.namespaced:
        paths += [
            f"{root}/{plural}",
            f"{root}/{plural}/x",
            f"{root}/{plural}/x/status",
            f"{root}/namespaces//{plural}",
            f"{root}/namespaces//{plural}/x",
            f"{root}/namespaces/absent/{plural}",
            f"{root}/namespaces/absent/{plural}/x",
        ]
        streams += [f"{root}/watch/namespaces//{plural}", f"{root}/watch/namespaces/absent/{plural}"]
    else:
        paths += [f"{root}/namespaces/{NAMESPACE}/{plural}", f"{root}/namespaces/{NAMESPACE}/{plural}/x"]
        streams += [f"{root}/watch/namespaces/{NAMESPACE}/{plural}/x"]
    return [_form(resource, path, path in streams) for path in dict.fromkeys((*paths, *streams))]


def _form(resource: Resource, path: str, streams: bool) -> Form:
    changed = labelled(resource.manifest, changed="yes")
    body = next((body for name, body in resource.subresources.items() if f"/{name}" in path), None)
    return Form(path, body or labelled(resource.named("new"), changed="yes"), body or changed, streams)


def _plain(*paths: str, posted: Object, put: Object | None = None) -> list[Form]:
    return [Form(path, posted, put or posted, "watch" in path) for path in paths]


_REVIEW = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": NAMESPACE}}
OTHERS = {
    "namespaces": _plain(
        "/api/v1/namespaces",
        "/api/v1/namespaces/",
        f"/api/v1/namespaces/{SPARE}",
        f"/api/v1/namespaces/{SPARE}/",
        f"/api/v1/namespaces//{SPARE}",
        f"/api/v1/namespaces/{SPARE}/status",
        f"/api/v1/namespaces/{SPARE}/finalize",
        f"/api/v1/namespaces/{SPARE}/finalize/deeper",
        f"/api/v1/namespaces/{SPARE}/odd",
        f"/api/v1/namespaces/{SPARE}/namespaces",
        f"/api/v1/namespaces/{SPARE}/namespaces/{SPARE}",
        "/api/v1/namespaces/missing",
        "/api/v1/namespaces//status",
        "/api/v1/watch/namespaces",
        f"/api/v1/watch/namespaces/{SPARE}",
        f"/api/v1/watch/namespaces/{SPARE}/status",
        f"/apis/apps/v1/namespaces/{SPARE}",
        "/apis/apps/v1/namespaces",
        f"/apis/{GROUP}/v1/namespaces/{SPARE}",
        posted=_named("v1", "Namespace", "matrix-new"),
        put=labelled(_named("v1", "Namespace", SPARE, spec={"finalizers": ["kubernetes"]}), changed="yes"),
    ),
    "reviews": [
        *_plain(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
            "/apis/authorization.k8s.io/v1/watch/selfsubjectaccessreviews",
            posted={"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": _REVIEW},
        ),
        *_plain(
            f"/apis/authorization.k8s.io/v1/namespaces/{NAMESPACE}/localsubjectaccessreviews",
            "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
            posted={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "LocalSubjectAccessReview",
                "metadata": {"namespace": NAMESPACE},
                "spec": {"user": "alice", **_REVIEW},
            },
        ),
        *_plain(
            f"/api/v1/namespaces/{NAMESPACE}/bindings",
            f"/api/v1/namespaces/{NAMESPACE}/bindings/x",
            f"/api/v1/watch/namespaces/{NAMESPACE}/bindings",
            "/api/v1/bindings",
            posted=_named("v1", "Binding", "x", target=_TARGET),
        ),
        *_plain(
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/missing/token",
            posted={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        ),
        *_plain(
            "/api/v1/componentstatuses",
            "/api/v1/componentstatuses/etcd-0",
            "/api/v1/watch/componentstatuses",
            posted=_named("v1", "ComponentStatus", "etcd-0"),
        ),
    ],
    "paths without a resource": _plain(
        "/",
        "//",
        "/api",
        "/api/",
        "//api",
        "/api/v1",
        "/api/v1/",
        "//api/v1",
        "/api/v2",
        "/api/v1/watch",
        "/api/v1/watch/",
        "/api/v1/proxy",
        "/apis/apps/v1/watch",
        "/api/v1/odd",
        "/api/v1/odd/x",
        "/api/v1/watch/odd",
        "/apis",
        "/apis/",
        "//apis",
        "/apis/apps",
        "/apis/apps/",
        "/apis//apps",
        "/apis//",
        "/apis//v1",
        "/apis//v1/configmaps",
        f"/apis//v1/namespaces/{NAMESPACE}/configmaps/x",
        f"/apis//v1/watch/namespaces/{NAMESPACE}/configmaps/x",
        "/apis/apps/v1",
        "/apis/apps/v1/",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
        f"/apis/apps/v9/namespaces/{NAMESPACE}/deployments/x",
        "/apis/odd.example.com",
        "/apis/odd.example.com/v1",
        "/apis/odd.example.com/v1/things",
        f"/apis/odd.example.com/v1/watch/namespaces/{NAMESPACE}/things/x",
        f"/apis/{GROUP}",
        f"/apis/{GROUP}/",
        f"/apis/{GROUP}/v1",
        f"/apis/{GROUP}/v1/",
        f"/apis/{GROUP}/v1/odd",
        f"/apis/{GROUP}/v2",
        f"/apis/{GROUP}/v2/namespaces/{NAMESPACE}/widgets/x",
        "/version",
        "/version/",
        "//version",
        "/version/x",
        "/version?timeout=invalid",
        "/healthz",
        "/healthz/",
        "//healthz",
        "/healthz/ping",
        "/healthz/odd",
        "/healthz?timeout=invalid",
        "/livez",
        "/readyz",
        "/openapi/v2",
        "/openapi/v2/",
        "/openapi/v3",
        "/openapi/v3/",
        "/openapi/v3/api/v1",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
        "/odd",
        "/odd/",
        "/apis/apps/v1/deployments?timeout=invalid",
        "/apis/apps/v1/watch/deployments?timeout=invalid",
        posted=config_map("new"),
    ),
}


def body_of(form: Form, method: str) -> tuple[bytes | None, str]:
    """What a method sends, and its media type."""
    if method not in _BODIES:
        return None, ""
    if method == "PATCH":
        return json.dumps(CHANGE).encode(), _MERGE_PATCH
    return json.dumps(form.posted if method == "POST" else form.put).encode(), "application/json"


class Matrix:
    """One server: sends the requests, knows the objects they may change, and puts these back."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection: http.client.HTTPSConnection | None = None

    def status(self, form: Form, method: str, headers: Mapping[str, str]) -> int:
        body, media_type = body_of(form, method)
        sent = {**headers, "Content-Type": media_type} if media_type else dict(headers)
        return self._answer(method, form.path, sent, body, streams=form.streams)[0]

    def _answer(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        streams: bool = False,
    ) -> tuple[int, bytes]:
        """The status and the body, as an administrator if no headers are given; the body of a stream is not read."""
        sent = dict(bearing(TOKEN) if headers is None else headers)
        for _ in range(2):
            fresh = self._connection is None
            connection = self._connection = self._connection or self.server.connect()
            try:
                connection.request(method, path, body=body, headers=sent)
                response = connection.getresponse()
                if streams and response.status == 200:
                    self.close()
                    return response.status, b""
                read = response.read()
                if response.will_close:
                    self.close()
                return response.status, read
            except (http.client.HTTPException, OSError):
                # A server may close an idle connection at any time; only a fresh one that breaks is an answer.
                self.close()
                if fresh:
                    return 0, b""
        raise AssertionError("a fresh connection answers or breaks")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def prepare(self) -> None:
        for each in (NAMESPACE, SPARE):
            self._create("/api/v1/namespaces", _named("v1", "Namespace", each))
        # A real API server without controllers does not aggregate cluster roles: the users are bound to the aggregated
        # roles.
        for role, verbs in _ROLES.items():
            rule = {"apiGroups": [GROUP], "resources": ["widgets", "widgets/scale"], "verbs": verbs}
            self._create(f"{_RBAC}/clusterroles", _named(_RBAC_VERSION, "ClusterRole", f"matrix-{role}", rules=[rule]))
        for user, role in (("viewer", "view"), ("editor", "view"), ("editor", "edit")):
            for cluster_role in (f"system:aggregate-to-{role}", f"matrix-{role}"):
                self._create(f"{_RBAC}/clusterrolebindings", _bound(user, cluster_role))
        for token in (VIEWER, EDITOR):
            self._wait_for_rights(bearing(token))

    def _wait_for_rights(self, headers: Mapping[str, str]) -> None:
        """A real server authorizes by what its informers have seen."""
        deadline_s = time.monotonic() + 30
        for path in (CONFIG_MAPS.base, WIDGETS.base):
            while self.server.request("GET", path, headers).status != 200:
                assert time.monotonic() < deadline_s, (self.server.name, path)
                time.sleep(0.05)

    def state(self, resources: Sequence[Resource] = KEPT) -> State:
        """What there is, without what each server draws or counts."""
        found: State = {}
        for resource in resources:
            for each in self._list(resource.base):
                found[f"{resource.base}/{each['metadata']['name']}"] = _essence(each)
        return found

    def revision(self) -> str:
        """The revision of the newest write of any kind. Only one list is requested, because this is asked often."""
        listed = self._answer("GET", f"{CONFIG_MAPS.base}?limit=1")
        assert listed[0] == 200, (self.server.name, listed)
        return str(json.loads(listed[1])["metadata"]["resourceVersion"])

    def namespaces(self) -> State:
        listed = self._list("/api/v1/namespaces")
        ours = (each for each in listed if each["metadata"]["name"].startswith("matrix"))
        return {each["metadata"]["name"]: _essence(each) for each in ours}

    def touch(self, resource: Resource) -> None:
        """Changes one object."""
        headers = {**bearing(TOKEN), "Content-Type": _MERGE_PATCH}
        answer = self._answer("PATCH", f"{resource.base}/x", headers, json.dumps(CHANGE).encode())
        assert answer[0] == 200, (self.server.name, resource, answer)

    def restore(self, base: State, resources: Sequence[Resource] = KEPT) -> None:
        for resource in resources:
            for each in self._list(resource.base):
                place = f"{resource.base}/{each['metadata']['name']}"
                if base.get(place) != _essence(each):
                    self._send("DELETE", f"{place}?gracePeriodSeconds=0")
            present = {each["metadata"]["name"] for each in self._list(resource.base)}
            for name in {"x", "y"} - present:
                self._create(resource.base, resource.named(name))

    def restore_namespaces(self) -> None:
        for name in ("matrix-new", SPARE):
            place = f"/api/v1/namespaces/{name}"
            self._send("DELETE", place)
            self._send("PUT", f"{place}/finalize", _named("v1", "Namespace", name, spec={"finalizers": []}))
        self._create("/api/v1/namespaces", _named("v1", "Namespace", SPARE))

    def _list(self, path: str) -> list[Object]:
        answer = self.server.request("GET", path)
        assert answer.status == 200, (self.server.name, path, answer)
        items: list[Object] = answer.json()["items"]
        return items

    def _create(self, path: str, manifest: Object) -> None:
        status, text = self._send("POST", path, manifest)
        assert status == 201, (self.server.name, path, status, text)

    def _send(self, method: str, path: str, body: Object | None = None) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        answer = self.server.request(method, path, headers, data)
        return answer.status, answer.body


def _essence(obj: Object) -> Object:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    shown = {"labels": {**metadata.get("labels", {})}, "ending": "deletionTimestamp" in metadata}
    shown["spec"] = {key: spec[key] for key in ("nodeName", "replicas", "finalizers") if key in spec}
    return {**shown, "data": obj.get("data")}
