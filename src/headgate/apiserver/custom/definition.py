"""The kinds that one CustomResourceDefinition defines, compiled.

A definition is served once its names are accepted, in the versions that it marks as served. Each version is a row of
the table of kinds with a form of its own (``apiserver/kinds/scheme.py``): decoding prunes by its schema, reading brings
objects that were stored under an older schema, or in another version, into shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.merge_schema import parseable_type_of_schema
from headgate.apimachinery.structural.schema import StructuralSchema, as_resource
from headgate.apiserver.custom.codec import CustomObjectCodec, rename
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
    """``spec`` and ``names`` are what the kinds were made from; ``ending``: no new objects."""

    uid: str
    spec: Object
    names: Object
    ending: bool
    kinds: tuple[ServedKind, ...]


def is_true(definition: Mapping[str, Any], condition: str) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == "True" for each in conditions)


def read_definition(
    schemas: Schemas, item: Item, before: CustomDefinition | None, conversions: Mapping[str, ConvertObject]
) -> CustomDefinition | None:
    """What ``item`` defines, or None while it is not served. Without a change of its spec nothing is compiled again.

    ``conversions``: by group, ways between versions. A definition that names a webhook has its own."""
    stored: Object = msgspec.json.decode(item.data)
    if not is_true(stored, "Established"):
        return None
    spec, names = stored["spec"], stored["status"]["acceptedNames"]
    ending = is_true(stored, "Terminating")
    if before is not None and (before.uid, before.spec, before.names) == (item.uid, spec, names):
        if before.ending == ending:
            return before
        kinds = tuple(msgspec.structs.replace(kind, ending=ending) for kind in before.kinds)
        return msgspec.structs.replace(before, ending=ending, kinds=kinds)
    convert = conversions.get(spec["group"])
    kinds = tuple(_make_kinds(schemas, spec, names, ending, item.revision, convert))
    return CustomDefinition(item.uid, spec, names, ending, kinds)


def _make_kinds(
    schemas: Schemas, spec: Object, names: Object, ending: bool, since: Revision, convert: ConvertObject | None
) -> list[ServedKind]:
    stored_version = next(each["name"] for each in spec["versions"] if each.get("storage"))
    labels = _selectable(spec)
    roots = {f"{spec['group']}/{each['name']}": as_resource(_schema(each)) for each in spec["versions"]}
    best_version = _best_version(spec)
    return [
        _make_kind(schemas, spec, names, version, stored_version, best_version, labels, roots, ending, since, convert)
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
    ending: bool,
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
        ending=ending,
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
        scheme=_make_form(schemas, gvk, spec, version, stored_version, stored_labels, roots, since, convert),
    )


def _make_form(
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
    known = None if webhook is not None else convert
    decoder = CustomObjectCodec(schemas, gvk, roots, stored_api_version, known or rename)
    subresources = version.get("subresources") or {}
    scale = _scale_paths(subresources.get("scale"))
    is_kept = version["name"] == stored_version
    form = KindScheme(
        decode=decoder.decode,
        default=decoder.default,
        emit=decoder.emit,
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
        to_stored=None if is_kept else decoder.to_stored,
        from_stored=decoder.from_stored,
        since=since if is_kept else ALWAYS,
        stored_labels=stored_labels,
        convert=known,
        webhook=webhook,
    )
    if webhook is None:
        return form

    def bind(convert: ConvertObject) -> KindScheme:
        asking = CustomObjectCodec(schemas, gvk, roots, stored_api_version, convert)
        to_stored = None if is_kept else asking.to_stored
        return msgspec.structs.replace(form, to_stored=to_stored, from_stored=asking.from_stored, convert=convert)

    return msgspec.structs.replace(form, bind=bind)


def _schema(version: Object) -> Object:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _scale_paths(scale: Object | None) -> ScalePaths | None:
    if scale is None:
        return None
    spec, status = (_steps(scale[f"{side}ReplicasPath"]) for side in ("spec", "status"))
    selector = scale.get("labelSelectorPath")
    return ScalePaths(spec, status, _steps(selector) if selector else ())


def _steps(path: str) -> tuple[str, ...]:
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
    steps = _steps(path)
    return FieldLabel(".".join(steps), (steps,))


def _selectable(spec: Object) -> tuple[FieldLabel, ...]:
    """Everything that some version can select on: what is kept with each object."""
    paths = [each["jsonPath"] for version in spec["versions"] for each in version.get("selectableFields") or ()]
    return (*METADATA_LABELS, *(_label(path) for path in dict.fromkeys(paths)))


def _deprecation(spec: Object, version: Object, best: str) -> str:
    """The warning of a version that is on its way out, naming ``best`` if that is a better one."""
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
