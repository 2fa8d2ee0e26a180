"""The paths of one group version as OpenAPI v3 path items: the operations of each kind and their parameters.

Operation ids, actions and parameters have the names of Kubernetes, because clients use them: kubectl reads the
``fieldValidation`` parameter of a kind's PATCH, and its patch media types. Only supported media types are listed. The
old ``/watch/`` paths are not listed: no current client reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.apiserver.discovery.openapi_schemas import META, PATCH, reference
from headgate.apiserver.kinds.kind import ServedKind, Subresource
from headgate.kube.schema import GroupVersionKind, Schemas

Object = dict[str, Any]

_BODY_TYPES: Final = ("application/json", "application/yaml")
_LIST_TYPES: Final = (*_BODY_TYPES, "application/json;stream=watch")
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_ANY_TYPE: Final = ("*/*",)
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_SELECT: Final = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
)
_DELETE: Final = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_BOOLEANS: Final = frozenset(
    {"allowWatchBookmarks", "force", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents"}
    | {"sendInitialEvents", "watch"}
)
_INTEGERS: Final = frozenset({"gracePeriodSeconds", "limit", "timeoutSeconds"})

# verb: (method, action, first word of the operation id, query parameters)
_Row = tuple[str, str, str, tuple[str, ...]]
_COLLECTION_VERBS: Final[dict[str, _Row]] = {
    "deletecollection": ("delete", "deletecollection", "delete", tuple(sorted({*_SELECT, *_DELETE}))),
    "list": ("get", "list", "list", tuple(sorted({*_SELECT, "allowWatchBookmarks", "watch"}))),
    "create": ("post", "post", "create", _WRITE),
}
_ITEM_VERBS: Final[dict[str, _Row]] = {
    "delete": ("delete", "delete", "delete", _DELETE),
    "get": ("get", "get", "read", ()),
    "patch": ("patch", "patch", "patch", (*_WRITE, "force")),
    "update": ("put", "put", "replace", _WRITE),
    "create": ("post", "post", "create", _WRITE),
}
_STATUS: Final = META + "Status"
_ALWAYS: Final = ("APIResourceList", "DeleteOptions", "Status", "WatchEvent")
_SELECT_AND_WATCH: Final = tuple(sorted({*_SELECT, "allowWatchBookmarks", "watch"}))


class _OperationStyle(msgspec.Struct, frozen=True):
    """Verbs and media types of operations. They differ a little between built-in and custom kinds."""

    collection_verbs: Mapping[str, _Row]
    item_verbs: Mapping[str, _Row]
    list_types: tuple[str, ...] = _LIST_TYPES
    patch_types: tuple[str, ...] = _PATCH_TYPES
    request_types: tuple[str, ...] = _ANY_TYPE
    patch_codes: tuple[str, ...] = ("200", "201")
    bare_collection_delete: bool = False


_BUILTIN: Final = _OperationStyle(_COLLECTION_VERBS, _ITEM_VERBS)
_CUSTOM: Final = _OperationStyle(
    collection_verbs=_COLLECTION_VERBS
    | {"deletecollection": ("delete", "deletecollection", "delete", _SELECT_AND_WATCH)},
    item_verbs=_ITEM_VERBS | {"get": ("get", "get", "read", ("resourceVersion",))},
    list_types=_BODY_TYPES,
    patch_types=_PATCH_TYPES[:3],
    request_types=_BODY_TYPES,
    patch_codes=("200",),
    bare_collection_delete=True,
)


def paths(schemas: Schemas, root: str, kinds: Iterable[ServedKind]) -> Object:
    """Every path below ``root`` (``/api/v1``), sorted."""
    kinds = tuple(kinds)
    found = {} if all(kind.scheme for kind in kinds) else {f"{root}/": {"get": _resources_operation(root)}}
    for kind in kinds:
        found.update(_KindPaths(schemas, root, kind).items())
    return dict(sorted(found.items()))


def mentioned(schemas: Schemas, kinds: Iterable[ServedKind]) -> Iterator[str]:
    """The types of the schema tables in requests and responses of these kinds."""
    kinds = tuple(kinds)
    custom = all(kind.scheme for kind in kinds)
    always = ("DeleteOptions", "ListMeta", "ObjectMeta", "Status") if custom else _ALWAYS
    yield from (META + name for name in always)
    yield PATCH
    for kind in kinds:
        if kind.scheme is None:
            yield kind.type_name
        names = (kind.gvk._replace(kind=kind.list_kind), *(each.gvk for each in kind.subresources))
        yield from (schemas.kinds[each] for each in names if each in schemas.kinds)


class _KindPaths:
    """The path items of one kind."""

    def __init__(self, schemas: Schemas, root: str, kind: ServedKind) -> None:
        self._schemas = schemas
        self._kind = kind
        self._root = root
        self._style = _BUILTIN if kind.scheme is None else _CUSTOM
        self._scope = "Namespaced" if kind.namespaced else ""
        self._collection = f"{root}{'/namespaces/{namespace}' if kind.namespaced else ''}/{kind.plural}"

    def items(self) -> Iterator[tuple[str, Object]]:
        kind = self._kind
        style = self._style
        collection = {verb: row for verb, row in style.collection_verbs.items() if verb in kind.verbs}
        if collection:
            yield self._collection, self._item(collection, ("namespace",) if kind.namespaced else ())
        if kind.namespaced and "list" in kind.verbs:
            operation = self._operation("list", *style.collection_verbs["list"], name=f"{kind.kind}ForAllNamespaces")
            shared = _parameters((), ("pretty",))
            if kind.is_custom_resource:  # with a single operation, its parameters are listed as those of the path
                shared = sorted([*shared, *operation.pop("parameters")], key=lambda each: str(each["name"]))
            yield f"{self._root}/{kind.plural}", {"get": operation, "parameters": shared}
        names = ("name", "namespace") if kind.namespaced else ("name",)
        item = {verb: row for verb, row in style.item_verbs.items() if verb in kind.verbs and verb != "create"}
        if item:
            yield f"{self._collection}/{{name}}", self._item(item, names)
        for each in kind.subresources:
            rows = {verb: row for verb, row in style.item_verbs.items() if verb in each.verbs}
            yield f"{self._collection}/{{name}}/{each.name}", self._item(rows, names, each)

    def _item(
        self,
        rows: dict[str, tuple[str, str, str, tuple[str, ...]]],
        path_parameters: tuple[str, ...],
        subresource: Subresource | None = None,
    ) -> Object:
        operations = {
            row[0]: self._operation(verb, *row, name=self._scope + self._kind.kind, subresource=subresource)
            for verb, row in rows.items()
        }
        return {**operations, "parameters": _parameters(path_parameters, ("pretty",))}

    def _operation(
        self,
        verb: str,
        method: str,
        action: str,
        id_prefix: str,
        query: tuple[str, ...],
        *,
        name: str,
        subresource: Subresource | None = None,
    ) -> Object:
        gvk = self._kind.gvk if subresource is None else subresource.gvk
        is_own_kind = subresource is None or gvk == self._kind.gvk
        body = self._kind.type_name if is_own_kind else self._schemas.kinds.get(gvk, "")
        if self._kind.is_custom_resource:
            gvk = self._kind.gvk
        middle = "Collection" if verb == "deletecollection" else ""
        id_suffix = "" if subresource is None else subresource.name.title()
        operation: Object = {
            "operationId": f"{id_prefix}{_camel(self._root)}{middle}{name}{id_suffix}",
            "tags": [_tag(self._root)],
            "x-kubernetes-action": action if body else "connect",
            "x-kubernetes-group-version-kind": gvk._asdict(),
        }
        if not body:  # operations over an upgraded connection have no schema
            text = {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}
            return {**operation, "responses": {"200": text, "401": {"description": "Unauthorized"}}}
        if query:
            operation["parameters"] = _parameters((), query)
        if method in ("post", "put"):
            operation["requestBody"] = {"content": _content(self._style.request_types, body), "required": True}
        elif method == "patch":
            operation["requestBody"] = {"content": _content(self._style.patch_types, PATCH), "required": True}
        elif method == "delete" and not (verb == "deletecollection" and self._style.bare_collection_delete):
            operation["requestBody"] = {"content": _content(self._style.request_types, META + "DeleteOptions")}
        operation["responses"] = self._responses(verb, body)
        return operation

    def _responses(self, verb: str, body: str) -> Object:
        if verb == "list":
            gvk = self._kind.gvk._replace(kind=self._kind.list_kind)
            lists = self._schemas.kinds.get(gvk, body) if self._kind.scheme is None else self._kind.list_type_name
            return _responses({"200": "OK"}, self._style.list_types, lists)
        match verb:
            case "create":
                return _responses({"200": "OK", "201": "Created", "202": "Accepted"}, _BODY_TYPES, body)
            case "update":
                return _responses({"200": "OK", "201": "Created"}, _BODY_TYPES, body)
            case "patch":
                descriptions = {"200": "OK", "201": "Created"}
                return _responses({code: descriptions[code] for code in self._style.patch_codes}, _BODY_TYPES, body)
            case "delete":
                return _responses({"200": "OK", "202": "Accepted"}, _BODY_TYPES, _STATUS)
            case "deletecollection":
                return _responses({"200": "OK"}, _BODY_TYPES, _STATUS)
            case _:
                return _responses({"200": "OK"}, _BODY_TYPES, body)


def _resources_operation(root: str) -> Object:
    return {
        "operationId": f"get{_camel(root)}APIResources",
        "tags": [_tag(root)],
        "responses": _responses({"200": "OK"}, _BODY_TYPES, META + "APIResourceList"),
    }


def _responses(codes: dict[str, str], media_types: tuple[str, ...], name: str) -> Object:
    by_code = {code: {"description": words, "content": _content(media_types, name)} for code, words in codes.items()}
    return {**by_code, "401": {"description": "Unauthorized"}}


def _content(media_types: tuple[str, ...], name: str) -> Object:
    return {media_type: {"schema": reference(name)} for media_type in media_types}


def _parameters(path_parameters: tuple[str, ...], query: tuple[str, ...]) -> list[Object]:
    rows = [(name, "path") for name in path_parameters] + [(name, "query") for name in query]
    return [_parameter(name, location) for name, location in sorted(rows)]


def _parameter(name: str, location: str) -> Object:
    kind = "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"
    schema = {"type": kind, "uniqueItems": True}
    return {"name": name, "in": location, "schema": schema, **({"required": True} if location == "path" else {})}


def _group_version(root: str) -> GroupVersionKind:
    *_, group, version = root.split("/")
    return GroupVersionKind("core" if group == "api" else group.removesuffix(".k8s.io"), version, "")


def _camel(root: str) -> str:
    """``/apis/rbac.authorization.k8s.io/v1`` -> ``RbacAuthorizationV1``."""
    group, version, _ = _group_version(root)
    return "".join(word.capitalize() for word in _words(group)) + version.capitalize()


def _words(group: str) -> list[str]:
    return group.replace("-", ".").split(".")


def _tag(root: str) -> str:
    """``/apis/rbac.authorization.k8s.io/v1`` -> ``rbacAuthorization_v1``."""
    group, version, _ = _group_version(root)
    first, *rest = _words(group)
    return f"{first}{''.join(word.capitalize() for word in rest)}_{version}"
