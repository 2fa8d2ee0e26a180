"""Compiles a CustomResourceDefinition (CRD) to the kinds that it defines.

A CRD is served once its names are accepted, in the versions that have ``served: true``. Each of these versions becomes
a :class:`ServedKind` with its own scheme (``apiserver/kinds/scheme.py``): decoding prunes fields that are not in the
schema of the version, and reading converts objects that were stored under an older schema or in another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.merge_schema import parseable_type_of_schema
from headgate.apimachinery.structural.schema import StructuralSchema, as_resource
from headgate.apimachinery.structural.schema_cost import SchemaCost, max_cost, schema_cost
from headgate.apiserver.custom.codec import CustomObjectCodec, change_api_version
from headgate.apiserver.custom.printer_columns import SCALE, make_printer
from headgate.apiserver.custom.strategy import make_strategy
from headgate.apiserver.kinds.kind import METADATA_LABELS, FieldLabel, ServedKind, Subresource
from headgate.apiserver.kinds.scheme import EVERY_REVISION, ConvertObject, KindScheme, ScalePaths
from headgate.apiserver.kinds.table import version_order
from headgate.apiserver.webhooks.conversion import read_webhook
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.store import Item, Revision

Object = dict[str, Any]

VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_READ_WRITE: Final = ("get", "patch", "update")
_REFUSAL: Final = "field label not supported: {label}"


class CompiledCRD(msgspec.Struct, frozen=True):
    """``spec`` and ``names``: what ``kinds`` were compiled from. ``terminating``: no new objects may be created."""

    uid: str
    spec: Object
    names: Object
    terminating: bool
    kinds: tuple[ServedKind, ...]


def is_true(crd: Mapping[str, Any], condition: str) -> bool:
    """Whether the CRD has the condition with status ``True``."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == "True" for each in conditions)


def compile_crd(
    schemas: Schemas, item: Item, before: CompiledCRD | None, conversions: Mapping[str, ConvertObject]
) -> CompiledCRD | None:
    """The CRD ``item``, compiled; None while it is not established.

    ``before`` is the result for the previous state of the CRD; its kinds are reused if the spec and the names are the
    same. ``conversions``: by group, conversions between versions; a CRD with a conversion webhook uses its webhook.
    """
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
    return CompiledCRD(item.uid, spec, names, terminating, kinds)


def _make_kinds(
    schemas: Schemas,
    spec: Object,
    names: Object,
    terminating: bool,
    crd_revision: Revision,
    convert: ConvertObject | None,
) -> list[ServedKind]:
    """One kind for each served version. ``crd_revision``: the revision of the CRD."""
    stored_version = next(each["name"] for each in spec["versions"] if each.get("storage"))
    stored_labels = _stored_labels(spec)
    version_schemas = {f"{spec['group']}/{each['name']}": as_resource(_schema(each)) for each in spec["versions"]}
    cost = max_cost(
        [schema_cost(_schema(each), version_schemas[f"{spec['group']}/{each['name']}"]) for each in spec["versions"]]
    )
    best_version = _best_version(spec)
    return [
        _make_kind(
            schemas,
            spec,
            names,
            version,
            stored_version,
            best_version,
            stored_labels,
            version_schemas,
            cost,
            terminating,
            crd_revision,
            convert,
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
    version_schemas: Mapping[str, StructuralSchema],
    cost: SchemaCost,
    terminating: bool,
    crd_revision: Revision,
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
        scheme=_make_scheme(
            schemas, gvk, spec, version, stored_version, stored_labels, version_schemas, cost, crd_revision, convert
        ),
    )


def _make_scheme(
    schemas: Schemas,
    gvk: GroupVersionKind,
    spec: Object,
    version: Object,
    stored_version: str,
    stored_labels: tuple[FieldLabel, ...],
    version_schemas: Mapping[str, StructuralSchema],
    cost: SchemaCost,
    crd_revision: Revision,
    convert: ConvertObject | None,
) -> KindScheme:
    schema = _schema(version)
    stored_api_version = GroupVersionKind(spec["group"], stored_version, "").api_version
    webhook = read_webhook(spec)
    conversion = None if webhook is not None else convert
    codec = CustomObjectCodec(schemas, gvk, version_schemas, stored_api_version, conversion or change_api_version)
    subresources = version.get("subresources") or {}
    scale = _scale_paths(subresources.get("scale"))
    is_stored_version = version["name"] == stored_version
    scheme = KindScheme(
        decode=codec.decode,
        default=codec.default,
        wire_form=codec.wire_form,
        typed=parseable_type_of_schema(schemas, gvk, schema),
        strategy=make_strategy(
            gvk,
            schema,
            version_schemas[gvk.api_version],
            namespaced=spec["scope"] == "Namespaced",
            has_status=subresources.get("status") is not None,
            scale=scale,
        ),
        schema=schema,
        cost=cost,
        printer=make_printer(version.get("additionalPrinterColumns") or ()),
        scale_printer=SCALE,
        scale=scale,
        to_stored=None if is_stored_version else codec.to_stored,
        from_stored=codec.from_stored,
        # Objects that were written later are already stored in this version, under the present schema.
        converts_up_to=crd_revision if is_stored_version else EVERY_REVISION,
        stored_labels=stored_labels,
        convert=conversion,
        webhook=webhook,
    )
    if webhook is None:
        return scheme

    # A webhook is called by the request that needs it, so the request binds the conversion.
    def bind(convert: ConvertObject) -> KindScheme:
        webhook_codec = CustomObjectCodec(schemas, gvk, version_schemas, stored_api_version, convert)
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
    declared = version.get("subresources") or {}
    rows = []
    if declared.get("status") is not None:
        rows.append(Subresource("status", gvk.kind, gvk.group, gvk.version, _READ_WRITE))
    if declared.get("scale") is not None:
        rows.append(Subresource("scale", "Scale", "autoscaling", "v1", _READ_WRITE))
    return tuple(rows)


def _labels(namespaced: bool, version: Object) -> tuple[FieldLabel, ...]:
    own = tuple(_label(each["jsonPath"]) for each in version.get("selectableFields") or ())
    return (*(METADATA_LABELS if namespaced else METADATA_LABELS[:1]), *own)


def _label(path: str) -> FieldLabel:
    parts = _path_parts(path)
    return FieldLabel(".".join(parts), (parts,))


def _stored_labels(spec: Object) -> tuple[FieldLabel, ...]:
    """The selectable fields of all versions. Their values are stored with each object."""
    paths = [each["jsonPath"] for version in spec["versions"] for each in version.get("selectableFields") or ()]
    return (*METADATA_LABELS, *(_label(path) for path in dict.fromkeys(paths)))


def _deprecation(spec: Object, version: Object, best: str) -> str:
    """The warning of a deprecated version; it recommends the version ``best`` if that is newer or more stable."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    text = f"{group}/{name} {kind} is deprecated"
    is_better = best and version_order(best) < version_order(name)
    return f"{text}; use {group}/{best} {kind}" if is_better else text


def _best_version(spec: Object) -> str:
    """The most stable, newest version that is served and not deprecated; empty if there is none."""
    served = (each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated"))
    return min(served, key=version_order, default="")
