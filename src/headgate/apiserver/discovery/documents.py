"""The discovery documents, ``/version`` and the list of paths.

The functions build the documents from a table of kinds. Legacy discovery is a tree of small documents (``/api``,
``/apis``, one per group and one per version); aggregated discovery is one document per prefix, with an ETag. The
``Accept`` header selects one of them (:func:`wants_aggregated`); ``apiserver/request/negotiation.py`` handles all other
media types.

Aggregated discovery is served as v2 only, as in Kubernetes v1.35; clients that know only v2beta1 fall back to legacy
discovery.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.apiserver.kinds.kind import ServedKind, Subresource
from headgate.apiserver.kinds.table import APIGroup, KindTable

Object = dict[str, Any]

AGGREGATED_PARAMETERS: Final = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
AGGREGATED_JSON: Final = f"application/json{AGGREGATED_PARAMETERS}"
# Sent with every aggregated document, beside its ETag.
AGGREGATED_HEADERS: Final = (("Vary", "Accept"), ("Cache-Control", "public"))

KUBERNETES_VERSION: Final = "v1.35.8"

_WANTED_PARAMETERS: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
_JSON_TYPES: Final = frozenset({"application/json", "application/*", "*/*", "*"})


def wants_aggregated(accept: str) -> bool:
    """Whether the first clause of an ``Accept`` header that can be served in JSON asks for aggregated discovery."""
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        if media_type not in _JSON_TYPES:
            continue
        values = {
            key.strip(): value.strip().strip('"') for key, _, value in (each.partition("=") for each in parameters)
        }
        wanted = {key: values[key] for key in _WANTED_PARAMETERS if key in values}
        if wanted == _WANTED_PARAMETERS:
            return True
        if not wanted:
            return False
    return False


def etag(document: Object) -> str:
    """The validator of an aggregated document, quotes included."""
    return f'"{hashlib.sha512(msgspec.json.encode(document)).hexdigest().upper()}"'


def aggregated(kinds: KindTable, prefix: Literal["/api", "/apis"]) -> Object:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(group) for group in kinds.groups() if bool(group.name) == (prefix == "/apis")],
    }


def _aggregated_group(group: APIGroup) -> Object:
    return {
        "metadata": {"name": group.name} if group.name else {},
        "versions": [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in members],
                "freshness": "Current",
            }
            for version, members in group.versions
        ],
    }


def _aggregated_resource(kind: ServedKind) -> Object:
    out: Object = {
        "resource": kind.plural,
        "responseKind": _explicit_version(kind) | {"kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": kind.offered_verbs,
    }
    if kind.short_names:
        out["shortNames"] = kind.short_names
    if kind.categories:
        out["categories"] = kind.categories
    if kind.subresources:
        out["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": _explicit_version(kind) | _differing_version(kind, each) | {"kind": each.kind},
                "verbs": each.verbs,
            }
            for each in kind.subresources
        ]
    return out


def _explicit_version(kind: ServedKind) -> dict[str, str]:
    """kube-apiserver leaves out the group and version of the document, except for custom kinds."""
    custom = kind.is_custom_resource
    return {"group": kind.group if custom else "", "version": kind.version if custom else ""}


def _differing_version(kind: ServedKind, subresource: Subresource) -> dict[str, str]:
    """Group and version of a subresource, if they differ from those of the document."""
    if (subresource.group, subresource.version) == (kind.group, kind.version):
        return {}
    return {"group": subresource.group, "version": subresource.version}


def api_versions(kinds: KindTable, server_address: str) -> Object:
    """``/api``. ``server_address`` is ``host:port`` as clients reach it."""
    core = kinds.group("")
    return {
        "kind": "APIVersions",
        "versions": [version for version, _ in core.versions] if core else [],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(kinds: KindTable) -> Object:
    """``/apis``."""
    groups = [_api_group(group) for group in kinds.groups() if group.name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(kinds: KindTable, name: str) -> Object | None:
    """``/apis/<group>``."""
    group = kinds.group(name) if name else None
    return None if group is None else {"kind": "APIGroup", "apiVersion": "v1"} | _api_group(group)


def _api_group(group: APIGroup) -> Object:
    versions = [{"groupVersion": f"{group.name}/{version}", "version": version} for version, _ in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(kinds: KindTable, group: str, version: str) -> Object | None:
    """``/api/v1`` and ``/apis/<group>/<version>``."""
    found = kinds.group(group)
    members = dict(found.versions).get(version) if found else None
    if members is None:
        return None
    # The document of the core group has no apiVersion.
    head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
    return head | {
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [each for kind in members for each in _api_resources(kind)],
    }


def _api_resources(kind: ServedKind) -> Iterable[Object]:
    out: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.offered_verbs,
    }
    if kind.short_names:
        out["shortNames"] = kind.short_names
    if kind.categories:
        out["categories"] = kind.categories
    if kind.storage_version_hash:
        out["storageVersionHash"] = kind.storage_version_hash
    yield out
    for each in kind.subresources:
        yield (
            {"name": f"{kind.plural}/{each.name}", "singularName": "", "namespaced": kind.namespaced}
            | _differing_version(kind, each)
            | {"kind": each.kind, "verbs": each.verbs}
        )


def version(headgate_version: str, python_version: str, platform: str) -> Object:
    """``/version``. Clients parse ``gitVersion`` and ignore the part after ``+``, which names Headgate."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    build = re.sub(r"[^0-9A-Za-z.-]", "-", headgate_version)
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"{KUBERNETES_VERSION}+headgate.{build}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{python_version}",
        "compiler": "cpython",
        "platform": platform,
    }


def root_paths(kinds: KindTable, others: Iterable[str]) -> Object:
    """``/``: all paths, including ``others`` (health, metrics, schemas)."""
    paths = {"/api", "/apis", "/apis/", "/version", *others}
    for group in kinds.groups():
        prefix = f"/apis/{group.name}" if group.name else "/api"
        paths.add(prefix)
        paths.update(f"{prefix}/{name}" for name, _ in group.versions)
    return {"paths": sorted(paths)}
