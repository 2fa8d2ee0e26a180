"""The kinds that one CustomResourceDefinition defines, compiled.

A definition is served once its names are accepted, in the versions that it marks as served. Each version is a row of
the table of kinds with its own scheme (``apiserver/kinds/scheme.py``): decoding prunes by its schema, and reading
converts objects that were stored by an older schema or in another version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.merge_schema import parseable_type_of_schema
from headgate.apimachinery.structural.schema import StructuralSchema, as_resource
from headgate.apiserver.custom.codec import CustomObjectCodec, change_api_version
from headgate.apiserver.custom.printer_columns import SCALE, make_printer
from headgate.apiserver.custom.strategy import make_strategy
from headgate.apiserver.kinds.kind import METADATA_LABELS, FieldLabel, ServedKind, Subresource
from headgate.apiserver.kinds.scheme import ALWAYS, ConvertObject, KindScheme, ScalePaths
from headgate.apiserver.kinds.table import version_order
from headgate.apiserver.webhooks.conversion import read_webhook
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.store import Item, Revision

Object = dict[str, Any]

VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_READ_WRITE: Final = ("get", "patch", "update")
_REFUSAL: Final = "field label not supported: {label}"


class CustomDefinition(msgspec.Struct, frozen=True):
    """``spec`` and ``names``: the source of the kinds. ``terminating``: no new objects are created."""

    uid: str
    spec: Object
    names: Object
    terminating: bool
    kinds: tuple[ServedKind, ...]


def is_true(definition: Mapping[str, Any], condition: str) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == "True" for each in conditions)


def read_definition(
    schemas: Schemas, item: Item, before: CustomDefinition | None, conversions: Mapping[str, ConvertObject]
) -> CustomDefinition | None:
    """The kinds of the definition ``item``, or None while it is not served. It is compiled again if its spec changed.

    ``conversions``: by group; a definition with a conversion webhook uses that."""
    stored: Object = msgspec.json.decode(item.data)
    if not is_true(stored, "Established"):
        return None
    spec, names = stored["spec"], stored["status"]["acceptedNames"]
    terminating = is_true(stored, "Terminating")
    if before is not None and (before.uid, before.spec, before.names) == (item.uid, spec, names):
        if before.terminating == terminating:
            return before
        kinds = tuple(msgspec.structs.replace(kind, terminating=terminating) for kind in before.kinds)
        return msgspec.structs.replace(before, terminating=terminating, kinds=kinds)
    convert = conversions.get(spec["group"])
    kinds = tuple(_make_kinds(schemas, spec, names, terminating, item.revision, convert))
    return CustomDefinition(item.uid, spec, names, terminating, kinds)


def _make_kinds(
    schemas: Schemas, spec: Object, names: Object, terminating: bool, since: Revision, convert: ConvertObject | None
) -> list[ServedKind]:
    stored_version = next(each["name"] for each in spec["versions"] if each.get("storage"))
    labels = _selectable(spec)
    roots = {f"{spec['group']}/{each['name']}": as_resource(_schema(each)) for each in spec["versions"]}
    best_version = _best_version(spec)
    return [
        _make_kind(
            schemas, spec, names, version, stored_version, best_version, labels, roots, terminating, since, convert
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _make_kind(
    schemas: Schemas,
    spec: Object,
    names: Object,
    version: Object,
    stored_version: str,
    best_version: str,
    stored_labels: tuple[FieldLabel, ...],
    roots: Mapping[str, StructuralSchema],
    terminating: bool,
    since: Revision,
    convert: ConvertObject | None,
) -> ServedKind:
    group, name = spec["group"], version["name"]
    gvk = GroupVersionKind(group, name, names["kind"])
    namespaced = spec["scope"] == "Namespaced"
    return ServedKind(
        group=group,
        version=name,
        kind=names["kind"],
        plural=names["plural"],
        singular=names["singular"],
        namespaced=namespaced,
        verbs=VERBS,
        terminating=terminating,
        type_name=".".join([*reversed(group.split(".")), name, names["kind"]]),
        stored_as=(group, names["plural"]),
        stored_version=stored_version,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=_subresources(gvk, version),
        field_labels=_labels(namespaced, version),
        field_label_refusal=_REFUSAL,
        deprecated=_deprecation(spec, version, best_version),
        own_list_kind=names["listKind"],
        scheme=_make_scheme(schemas, gvk, spec, version, stored_version, stored_labels, roots, since, convert),
    )


def _make_scheme(
    schemas: Schemas,
    gvk: GroupVersionKind,
    spec: Object,
    version: Object,
    stored_version: str,
    stored_labels: tuple[FieldLabel, ...],
    roots: Mapping[str, StructuralSchema],
    since: Revision,
    convert: ConvertObject | None,
) -> KindScheme:
    schema = _schema(version)
    stored_api_version = GroupVersionKind(spec["group"], stored_version, "").api_version
    webhook = read_webhook(spec)
    conversion = None if webhook is not None else convert
    codec = CustomObjectCodec(schemas, gvk, roots, stored_api_version, conversion or change_api_version)
    subresources = version.get("subresources") or {}
    scale = _scale_paths(subresources.get("scale"))
    is_stored_version = version["name"] == stored_version
    scheme = KindScheme(
        decode=codec.decode,
        default=codec.default,
        emit=codec.emit,
        typed=parseable_type_of_schema(schemas, gvk, schema),
        strategy=make_strategy(
            gvk,
            schema,
            roots[gvk.api_version],
            namespaced=spec["scope"] == "Namespaced",
            has_status=subresources.get("status") is not None,
            scale=scale,
        ),
        custom=True,
        schema=schema,
        printer=make_printer(version.get("additionalPrinterColumns") or ()),
        scale_printer=SCALE,
        scale=scale,
        to_stored=None if is_stored_version else codec.to_stored,
        from_stored=codec.from_stored,
        since=since if is_stored_version else ALWAYS,
        stored_labels=stored_labels,
        convert=conversion,
        webhook=webhook,
    )
    if webhook is None:
        return scheme

    def bind(convert: ConvertObject) -> KindScheme:
        webhook_codec = CustomObjectCodec(schemas, gvk, roots, stored_api_version, convert)
        to_stored = None if is_stored_version else webhook_codec.to_stored
        return msgspec.structs.replace(
            scheme, to_stored=to_stored, from_stored=webhook_codec.from_stored, convert=convert
        )

    return msgspec.structs.replace(scheme, bind=bind)


def _schema(version: Object) -> Object:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _scale_paths(scale: Object | None) -> ScalePaths | None:
    if scale is None:
        return None
    spec, status = (_path_parts(scale[f"{side}ReplicasPath"]) for side in ("spec", "status"))
    selector = scale.get("labelSelectorPath")
    return ScalePaths(spec, status, _path_parts(selector) if selector else ())


def _path_parts(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _subresources(gvk: GroupVersionKind, version: Object) -> tuple[Subresource, ...]:
    wanted = version.get("subresources") or {}
    rows = []
    if wanted.get("status") is not None:
        rows.append(Subresource("status", gvk.kind, gvk.group, gvk.version, _READ_WRITE))
    if wanted.get("scale") is not None:
        rows.append(Subresource("scale", "Scale", "autoscaling", "v1", _READ_WRITE))
    return tuple(rows)


def _labels(namespaced: bool, version: Object) -> tuple[FieldLabel, ...]:
    own = tuple(_label(each["jsonPath"]) for each in version.get("selectableFields") or ())
    return (*(METADATA_LABELS if namespaced else METADATA_LABELS[:1]), *own)


def _label(path: str) -> FieldLabel:
    parts = _path_parts(path)
    return FieldLabel(".".join(parts), (parts,))


def _selectable(spec: Object) -> tuple[FieldLabel, ...]:
    """The selectable fields of all versions, which are stored with each object."""
    paths = [each["jsonPath"] for version in spec["versions"] for each in version.get("selectableFields") or ()]
    return (*METADATA_LABELS, *(_label(path) for path in dict.fromkeys(paths)))


def _deprecation(spec: Object, version: Object, best: str) -> str:
    """The warning of a deprecated version, which names ``best`` if that is preferred."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    text = f"{group}/{name} {kind} is deprecated"
    is_better = best and version_order(best) < version_order(name)
    return f"{text}; use {group}/{best} {kind}" if is_better else text


def _best_version(spec: Object) -> str:
    """The first of the served versions that are not deprecated; empty if there is none."""
    served = (each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated"))
    return min(served, key=version_order, default="")
