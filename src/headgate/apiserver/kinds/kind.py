"""A served kind: the names, verbs, subresources and selectable fields of one resource in one API version.

A :class:`ServedKind` is one resource of one API version: ``pods`` of ``v1``, ``horizontalpodautoscalers`` of
``autoscaling/v1``. Several served kinds may be versions of the same stored objects (``stored_as``): events of the core
group and of ``events.k8s.io`` are the same objects with two schemas (``conversion.py``).

A :class:`FieldLabel` is a field that ``?fieldSelector=`` may name. Its value is always read from the *stored* version.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apiserver.kinds.scheme import KindScheme
from headgate.kube.field_errors import quote
from headgate.kube.integers import read_natural
from headgate.kube.schema import GroupVersionKind

EVERY_VERB: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


_WRITES: Final = frozenset({"create", "patch", "update"})


class Subresource(msgspec.Struct, frozen=True):
    """``pods/status``: ``name`` is ``status``; group, version and kind are those of the body."""

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


class FieldLabel(msgspec.Struct, frozen=True):
    """A name in field selectors. Its value is that of the first path that is set, as text; otherwise ``default``.

    A label without paths is accepted for old clients; its value is always ``default``.
    """

    label: str
    paths: tuple[tuple[str, ...], ...]
    default: str = ""

    def value(self, stored: Mapping[str, Any]) -> str:
        for path in self.paths:
            text = _text_at(stored, path)
            if text:
                return text
        return self.default


def _text_at(value: Any, path: tuple[str, ...]) -> str:
    for step in path:
        if value.__class__ is dict:
            value = value.get(step)
            if value is None:
                return ""
        elif isinstance(value, list) and (index := read_natural(step)) is not None and index < len(value):
            value = value[index]
        else:
            return ""
    if value.__class__ is str:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


METADATA_LABELS: Final = (
    FieldLabel("metadata.name", (("metadata", "name"),)),
    FieldLabel("metadata.namespace", (("metadata", "namespace"),)),
)

# By default a kind accepts the two metadata labels and refuses others with this text.
PLAIN_REFUSAL: Final = '{quoted} is not a known field selector: only "metadata.name", "metadata.namespace"'


class ServedKind(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    type_name: str  # in the schema tables: "io.k8s.api.core.v1.Pod"
    stored_as: tuple[str, str]  # the group and plural under which its objects are stored
    stored_version: str  # the version in which its objects are stored
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    field_labels: tuple[FieldLabel, ...] = METADATA_LABELS
    field_label_refusal: str = PLAIN_REFUSAL
    deprecated: str = ""  # the warning in every response for this kind
    own_list_kind: str = ""  # if it is not the kind's name followed by "List"
    terminating: bool = False  # its CustomResourceDefinition is being deleted, so discovery offers no more writes
    scheme: KindScheme | None = None  # of a custom resource; built-in kinds have theirs in the schema tables

    @property
    def is_custom_resource(self) -> bool:
        return self.scheme is not None

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def api_version(self) -> str:
        return self.gvk.api_version

    @property
    def is_stored_version(self) -> bool:
        """Whether its objects are stored in this version."""
        return self.version == self.stored_version and (self.group, self.plural) == self.stored_as

    @property
    def list_kind(self) -> str:
        return self.own_list_kind or f"{self.kind}List"

    @property
    def list_type_name(self) -> str:
        """The name of the list's schema, where it follows from the kind's."""
        return f"{self.type_name.removesuffix(self.kind)}{self.list_kind}"

    @property
    def group_resource(self) -> str:
        """The name in error texts: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def resource(self) -> str:
        """The name under which its objects are stored, such as ``deployments.apps``; the same for all versions."""
        group, plural = self.stored_as
        return f"{plural}.{group}" if group else plural

    @property
    def is_stored(self) -> bool:
        """False for kinds that exist only in responses: bindings, access reviews, component statuses."""
        return "watch" in self.verbs

    @property
    def storage_version_hash(self) -> str:
        """``storageVersionHash`` in discovery; empty for kinds that are not stored."""
        if not self.is_stored:
            return ""
        text = f"{self.stored_as[0]}/{self.stored_version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()

    @property
    def offered_verbs(self) -> tuple[str, ...]:
        """The verbs in discovery."""
        return tuple(each for each in self.verbs if each not in _WRITES) if self.terminating else self.verbs

    def subresource(self, name: str) -> Subresource | None:
        return next((each for each in self.subresources if each.name == name), None)

    def field_label(self, label: str) -> FieldLabel | str:
        """The field label, or the message of the 400 response if the kind has no such label."""
        for each in self.field_labels:
            if each.label == label:
                return each
        return self.field_label_refusal.format(label=label, quoted=quote(label))
