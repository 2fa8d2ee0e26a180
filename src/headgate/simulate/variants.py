"""Variants: what differs between the simulations that are compared, read from one YAML file.

A variant changes settings (``settings.py``) and objects of the snapshot: it patches, adds or removes them. The file is
of the kind ``Simulation`` in ``headgate.dev/v1alpha1``; ``docs/simulate.md`` documents it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from headgate.apimachinery.patch.merge_patch import apply_merge_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.kube.api_resources import APIResource
from headgate.simulate import settings as simulation_settings
from headgate.simulate.generator import PROFILES, GeneratorOptions
from headgate.simulate.settings import Settings
from headgate.simulate.snapshot import (
    KINDS,
    LaterChange,
    ObjectCheck,
    Snapshot,
    SnapshotError,
    no_check,
    read_snapshot,
)
from headgate.simulate.trace import amounts_problem

Object = dict[str, Any]

API_VERSION: Final = "headgate.dev/v1alpha1"
KIND: Final = "Simulation"
ALL: Final = "*"


class VariantError(ValueError):
    """The file cannot be used. The text names the field."""


class ObjectRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Objects of the snapshot. ``name``: ``*`` for all of the kind."""

    kind: str
    name: str
    namespace: str = ""

    def matches(self, resource: APIResource, obj: Object) -> bool:
        metadata = obj["metadata"]
        return (
            KINDS.get(self.kind) == resource
            and self.name in (ALL, metadata["name"])
            and self.namespace in ("", metadata.get("namespace"))
        )


class ObjectChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch of objects."""

    kind: str
    name: str
    patch: Object
    namespace: str = ""

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.kind, self.name, self.namespace)


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One simulation. ``settings`` replace those of the file, field by field."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
    settings: Object = {}
    patches: tuple[ObjectChange, ...] = ()
    add: tuple[Object, ...] = ()
    remove: tuple[ObjectRef, ...] = ()


class SWFSection(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How jobs of the Standard Workload Format become pods (``swf.py``)."""

    queue: str = "default"
    queues: Mapping[str, str] = {}
    per_processor: Mapping[str, str] = msgspec.field(default_factory=lambda: {"cpu": "1"})
    processors_per_pod: Annotated[int, msgspec.Meta(ge=1)] = 1


class SimulationFile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    settings: Object = {}
    generator: GeneratorOptions = GeneratorOptions()
    swf: SWFSection = SWFSection()
    variants: tuple[Variant, ...] = ()


DEFAULT: Final = SimulationFile(API_VERSION, KIND)
ONLY: Final = Variant("simulation")


def read_file(value: Any) -> SimulationFile:
    """``value``: the parsed YAML. It raises :class:`VariantError`."""
    if not isinstance(value, dict) or value.get("apiVersion") != API_VERSION or value.get("kind") != KIND:
        raise VariantError(f"the file must be of apiVersion {API_VERSION} and kind {KIND}")
    try:
        read = msgspec.convert(value, SimulationFile)
    except msgspec.ValidationError as error:
        raise VariantError(str(error)) from error
    names = [each.name for each in read.variants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise VariantError(f"variants: the name {twice[0]!r} is used twice")
    if read.generator.profile not in PROFILES:
        raise VariantError(f"generator.profile: {read.generator.profile!r} is not one of {', '.join(PROFILES)}")
    problem = amounts_problem("generator.unit", read.generator.unit) or amounts_problem(
        "swf.perProcessor", read.swf.per_processor
    )
    if problem:
        raise VariantError(problem)
    for each in read.variants or (ONLY,):
        settings_of(read, each)
    return read


def settings_of(file: SimulationFile, variant: Variant) -> Settings:
    """It raises :class:`VariantError`."""
    merged = _merged(file.settings, variant.settings)
    try:
        found = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise VariantError(f"variant {variant.name}: settings: {error}") from error
    problem = simulation_settings.find_problem(found)
    if problem:
        raise VariantError(f"variant {variant.name}: settings.{problem}")
    return found


def snapshot_of(snapshot: Snapshot, variant: Variant, check: ObjectCheck = no_check) -> Snapshot:
    """The snapshot with the changes of the variant. It raises :class:`VariantError` and :class:`SnapshotError`."""
    if not variant.remove and not variant.patches and not variant.add:
        return snapshot
    objects: list[tuple[APIResource, Object]] = list(snapshot.objects)
    later: list[LaterChange] = list(snapshot.later)
    for ref in variant.remove:
        _check_found(variant, ref, snapshot)
        objects = [(resource, obj) for resource, obj in objects if not ref.matches(resource, obj)]
        later = [each for each in later if not ref.matches(each.resource, each.obj)]
    for change in variant.patches:
        _check_found(variant, change.ref, snapshot)
        objects = [
            (resource, _merged(obj, change.patch) if change.ref.matches(resource, obj) else obj)
            for resource, obj in objects
        ]
        later = [
            msgspec.structs.replace(each, obj=_merged(each.obj, change.patch))
            if change.ref.matches(each.resource, each.obj)
            else each
            for each in later
        ]
    added = [obj for _, obj in objects] + list(variant.add)
    is_given = snapshot.recorded_from_s is None  # objects of a recording are not whole
    try:
        read_snapshot(variant.add, check)
        read = read_snapshot(added, check if is_given and variant.patches else no_check)
    except SnapshotError as error:
        raise SnapshotError(f"variant {variant.name}: {error}") from error
    return msgspec.structs.replace(
        read, later=tuple(later), recorded_from_s=snapshot.recorded_from_s, unknown=snapshot.unknown
    )


def _check_found(variant: Variant, ref: ObjectRef, snapshot: Snapshot) -> None:
    if not any(ref.matches(resource, obj) for resource, obj in snapshot.objects) and not any(
        ref.matches(each.resource, each.obj) for each in snapshot.later
    ):
        raise VariantError(f"variant {variant.name}: the snapshot has no {ref.kind} {ref.name}")


def _merged(document: Object, patch: Object) -> Object:
    patched = apply_merge_patch(document, patch, strict_decoding=False)
    assert isinstance(patched, PatchResult), patched
    return dict(patched.value)
