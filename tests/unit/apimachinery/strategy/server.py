"""Runs the strategy of a kind for one write, without requests and storage: decode, default, allocate, prepare,
validate.

The recorded responses of kube-apiserver in ``observed/`` have one fixed uid, ``NOW`` for times that the server chose,
and ``{...}`` for values that it prints as Go structs.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from zoneinfo import available_timezones

import msgspec

from headgate import schemas
from headgate.apimachinery.codec import codec
from headgate.apimachinery.codec.empty_collections import drop_empty_collections
from headgate.apimachinery.defaults.registry import DEFAULTERS
from headgate.apimachinery.strategy import STRATEGIES, AllocationPool, Strategy, StrategyContext
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.validation.object_meta import validate_common_meta, validate_common_meta_update

Object = dict[str, Any]

UID = "00000000-0000-4000-8000-000000000001"
NOW = "2030-01-01T00:00:00Z"

_STRUCT = re.compile(r"(Invalid|Duplicate|Unsupported) value: [{\[].*[}\]](: |$)")
_EMPTY = re.compile(r"value: (null|\{\}|\[\])(: |$)")
_DIFFERENCES = re.compile(r"\n.*", re.DOTALL)


class WriteResult(msgspec.Struct, frozen=True):
    """``problems`` are field, reason and message of each cause, in order; ``body`` is the object of a success."""

    body: Object = {}
    warnings: list[str] = []
    problems: list[list[str]] = []
    error: str = ""  # the body could not be decoded

    @property
    def is_error(self) -> bool:
        return bool(self.problems or self.error)


@cache
def all_schemas() -> Schemas:
    return Schemas.load(schemas.read())


@cache
def time_zones() -> frozenset[str]:
    return frozenset(available_timezones())


def context(features: FeatureGates | None = None) -> StrategyContext:
    return StrategyContext(
        now=NOW,
        now_micro="2030-01-01T00:00:00.000000Z",
        features=features or FeatureGates(),
        user="admin",
        time_zones=time_zones(),
    )


def _kind_of(obj: Object) -> GroupVersionKind:
    group, _, version = obj["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, obj["kind"])


def strategy_of(obj: Object) -> Strategy:
    kind = _kind_of(obj)
    return STRATEGIES[kind.group, kind.kind]


def _print(obj: Object) -> Object:
    kind = _kind_of(obj)
    printed = codec.wire_form(all_schemas(), all_schemas().kinds[kind], obj)
    return {**printed, "apiVersion": kind.api_version, "kind": kind.kind}


def decode(body: Object) -> Object | str:
    """The decoded object with defaults, or the error."""
    kind = _kind_of(body)
    parsed = codec.decode_json(json.dumps(body).encode())
    decoded = codec.convert(all_schemas(), all_schemas().kinds[kind], parsed.value)
    if decoded.error is not None:
        return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {decoded.error}'
    decoded.obj.setdefault("metadata", {})
    _default(kind, decoded.obj)
    printed = _print({**decoded.obj, "apiVersion": body["apiVersion"], "kind": body["kind"]})
    return drop_empty_collections(all_schemas(), all_schemas().kinds[kind], printed)


def _default(kind: GroupVersionKind, obj: Object) -> None:
    defaulter = DEFAULTERS.get((kind.group, kind.version, kind.kind))
    if defaulter is not None:
        defaulter(obj)


def _error_result(errors: FieldErrors) -> WriteResult:
    return WriteResult(problems=[[each.path, each.kind.cause, masked(each.body)] for each in errors])


def masked(message: str) -> str:
    message = _EMPTY.sub(r"value: {...}\2", _STRUCT.sub(r"\1 value: {...}\2", message))
    return _DIFFERENCES.sub("\n...", message)


def create(body: Object, *, features: FeatureGates | None = None, others: tuple[Object, ...] = ()) -> WriteResult:
    """``others`` are the stored objects of the same kind."""
    ctx, strategy = context(features), strategy_of(body)
    obj = decode(body)
    if isinstance(obj, str):
        return WriteResult(error=obj)
    obj["metadata"] |= {"uid": UID, "creationTimestamp": NOW}
    if strategy.namespaced:
        obj["metadata"].setdefault("namespace", "kk")
    else:
        obj["metadata"].pop("namespace", None)
    pool = AllocationPool({thing for each in others for thing in strategy.allocations(each)}, lambda below: 7)
    if strategy.allocate is not None and (given := strategy.allocate(obj, None, pool)):
        return _error_result(given) if isinstance(given, list) else WriteResult(error=given)
    strategy.prepare_create(obj, ctx)
    found = strategy.validate_create(obj, ctx)
    found = found or validate_common_meta(obj["metadata"], namespaced=strategy.namespaced)
    if found:
        return _error_result(found)
    warnings = strategy.warnings_create(obj, ctx)
    _default(_kind_of(obj), obj)
    return WriteResult(body=_print(obj), warnings=warnings)


def update(body: Object, old: Object, subresource: str = "", *, features: FeatureGates | None = None) -> WriteResult:
    ctx, strategy = context(features), strategy_of(body)
    rules = strategy.subresources[subresource] if subresource else strategy.update
    new, before = decode(body), decode(old)
    if isinstance(new, str):
        return WriteResult(error=new)
    assert not isinstance(before, str)
    frozen = msgspec.json.encode(before)
    metadata, stored = new["metadata"], before["metadata"]
    metadata.pop("generation", None)
    if "generation" in stored:
        metadata["generation"] = stored["generation"]
    metadata["resourceVersion"] = stored.setdefault("resourceVersion", "1")
    allocates = strategy.allocate is not None and not subresource
    pool = AllocationPool(set(strategy.allocations(before)), lambda below: 7)
    if allocates and strategy.allocate and (given := strategy.allocate(new, before, pool)):
        return _error_result(given) if isinstance(given, list) else WriteResult(error=given)
    rules.prepare(new, before, ctx)
    metadata = new["metadata"]
    metadata.setdefault("uid", stored["uid"])
    metadata["creationTimestamp"] = stored["creationTimestamp"]
    found = validate_common_meta_update(metadata, stored, namespaced=strategy.namespaced)
    found = found + rules.validate(new, before, ctx)
    before["metadata"].pop("resourceVersion", None)
    assert msgspec.json.decode(frozen) | {"metadata": before["metadata"]} == before, "the old object was changed"
    return _error_result(found) if found else WriteResult(body=_print(new), warnings=rules.warnings(new, before, ctx))
