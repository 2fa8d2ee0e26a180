"""Shorthand for the tables of built-in kinds: :func:`builtin_kind` derives what follows from the name of a kind.

Custom kinds do not use it: their names and verbs come from their CustomResourceDefinition, so ``apiserver/custom/``
builds :class:`~headgate.apiserver.kinds.kind.ServedKind` directly.
"""

from __future__ import annotations

from typing import Final, Literal

from headgate.apiserver.kinds.kind import (
    EVERY_VERB,
    METADATA_LABELS,
    PLAIN_REFUSAL,
    FieldLabel,
    ServedKind,
    Subresource,
)

CREATE: Final = ("create",)
READ_WRITE: Final = ("get", "patch", "update")
CONNECT: Final = ("create", "get")
PROXY: Final = ("create", "delete", "get", "patch", "update")

# A subresource: its name, its verbs, and its (group, version, kind) if these differ from those of the kind itself.
SubresourceRow = tuple[str, tuple[str, ...], tuple[str, str, str] | None]

STATUS: Final[SubresourceRow] = ("status", READ_WRITE, None)
SCALE: Final[SubresourceRow] = ("scale", READ_WRITE, ("autoscaling", "v1", "Scale"))


def field(label: str, *more_paths: str, default: str = "") -> FieldLabel:
    """A field label named after its own path; ``more_paths`` are read if that one is empty. ``default``: the value if
    all are empty."""
    return FieldLabel(label, tuple(tuple(path.split(".")) for path in (label, *more_paths)), default)


def alias(label: str, path: str, default: str = "") -> FieldLabel:
    """A field label whose name is not its path in the stored object."""
    return FieldLabel(label, (tuple(path.split(".")),), default)


def builtin_kind(
    api_version: str,
    kind: str,
    plural: str,
    scope: Literal["Namespaced", "Cluster"],
    *,
    verbs: tuple[str, ...] = EVERY_VERB,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    subresources: tuple[SubresourceRow, ...] = (),
    field_labels: tuple[FieldLabel, ...] = METADATA_LABELS,
    field_label_refusal: str = PLAIN_REFUSAL,
    stored_as: tuple[str, str, str] | None = None,
    deprecated: str = "",
    type_name: str = "",
) -> ServedKind:
    """``stored_as``: group, version and plural under which objects are stored, if these are those of another kind.
    ``type_name``: the name in the schema tables, if it does not follow from the kind."""
    group, _, version = api_version.rpartition("/")
    stored_group, stored_version, stored_plural = stored_as or (group, version, plural)
    return ServedKind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=scope == "Namespaced",
        verbs=verbs,
        type_name=type_name or f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}.{kind}",
        stored_as=(stored_group, stored_plural),
        stored_version=stored_version,
        short_names=short_names,
        categories=categories,
        subresources=tuple(
            _subresource(name, sub_verbs, gvk or (group, version, kind)) for name, sub_verbs, gvk in subresources
        ),
        field_labels=field_labels,
        deprecated=deprecated,
        field_label_refusal=field_label_refusal,
    )


def _subresource(name: str, verbs: tuple[str, ...], gvk: tuple[str, str, str]) -> Subresource:
    group, version, kind = gvk
    return Subresource(name=name, kind=kind, group=group, version=version, verbs=verbs)
