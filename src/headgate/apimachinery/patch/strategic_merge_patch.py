"""Strategic merge patch: a merge patch in which some lists are merged by a key.

The schema tables define for each field how it is merged (``patch_strategy``, ``merge_key``). The patch may contain
directives: ``$patch: replace|delete``, ``$retainKeys``, ``$deleteFromPrimitiveList/<list>`` and
``$setElementOrder/<list>``. Objects are merged here, lists in ``strategic_lists.py``. The *document*, which is the
object that is patched, is not changed. Errors are those of Kubernetes: a malformed directive is 400, a list of lists
422, and some errors of the patch are 500 because kube-apiserver does not classify them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headgate.apimachinery.patch import strategic_directives
from headgate.apimachinery.patch.go_text import go_type, json_type_name
from headgate.apimachinery.patch.result import PatchError, PatchResult, malformed, unexpected
from headgate.apimachinery.patch.strategic_directives import StrategicPatchError
from headgate.apimachinery.patch.strategic_lists import merge_lists, order_by_directive
from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]

_NO_FIELDS: Final[Mapping[str, Field]] = {}
_GO_KINDS: Final = {
    "list": "slice",
    "bytes": "slice",
    "map": "map",
    "string": "string",
    "int32": "int32",
    "int64": "int64",
    "float": "float64",
    "bool": "bool",
}
_GO_STRUCTS: Final = {
    "quantity": "Quantity",
    "time": "Time",
    "microtime": "MicroTime",
    "duration": "Duration",
    "intorstring": "IntOrString",
    "raw": "RawExtension",
}


class _MergeRule(NamedTuple):
    """How a field is merged: the type of its value (for a list, of an item), the strategy and the merge key."""

    type: Type
    strategy: str
    key: str


def apply_strategic(schemas: Schemas, type_name: str, document: Object, patch: Any) -> PatchResult | PatchError:
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        return malformed(
            f"json: cannot unmarshal {json_type_name(patch)} into Go value of type map[string]interface {{}}"
        )
    try:
        return PatchResult(_Merge(schemas).objects(document, patch, Type("struct", ref=type_name)))
    except StrategicPatchError as stop:
        return stop.problem


class _Merge:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas: Final = schemas

    def objects(self, original: Object, patch: Object, type: Type) -> Object:
        if strategic_directives.PATCH_DIRECTIVE in patch:
            return strategic_directives.replace_or_delete(patch)
        out = dict(original)
        if strategic_directives.RETAIN_KEYS in patch:
            out = strategic_directives.retain_keys(out, patch)
            patch = {key: value for key, value in patch.items() if key != strategic_directives.RETAIN_KEYS}
        ordered = [key for key in patch if key.startswith(strategic_directives.SET_ORDER)]
        if ordered:
            patch = dict(patch)
            for key in ordered:
                self._set_order(out, patch, key, type)
        # The order is undefined in Kubernetes; with deletions first, a patch can delete an item and add it again.
        for key in sorted(patch, key=lambda each: not each.startswith(strategic_directives.DELETE_ITEMS)):
            self._field(out, key, patch[key], type)
        return out

    def _field(self, out: Object, key: str, value: Any, type: Type) -> None:
        deletes = key.startswith(strategic_directives.DELETE_ITEMS)
        if deletes:
            key = strategic_directives.list_name(key, strategic_directives.DELETE_ITEMS)
        if value is None:
            out.pop(key, None)
            return
        old = out.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            rule = self._rule(type, key)
            out[key] = value if rule.strategy == "replace" else self.objects(old, value, rule.type)
        elif isinstance(old, list) and isinstance(value, list):
            rule = self._item_rule(type, key)
            if rule.strategy == "merge" or deletes:
                out[key] = merge_lists(old, value, rule.key, self._merger(rule.type), deletes)
            else:
                out[key] = value
        elif not deletes:
            kept = strategic_directives.without_directives(strategic_directives.without_nulls(value))
            if kept is strategic_directives.DROPPED:
                out.pop(key, None)
            else:
                out[key] = kept

    def _set_order(self, out: Object, patch: Object, directive: str, type: Type) -> None:
        """Merges a list with its ``$setElementOrder``, and removes both from ``patch``, which is a copy."""
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise StrategicPatchError(unexpected(f"expected a []interface {{}}, but received a {go_type(order)}"))
        key = strategic_directives.list_name(directive, strategic_directives.SET_ORDER)
        for side in (out, patch):
            if key in side and not isinstance(side[key], list):
                raise StrategicPatchError(
                    unexpected(f"expected a []interface {{}}, but received a {go_type(side[key])}")
                )
        rule = self._item_rule(type, key)
        change = patch.get(key)
        strategic_directives.check_order(change or [], order, rule.key)
        if key not in out and key not in patch:
            return
        if key not in patch:
            merged = out[key]
        elif key not in out:
            merged = strategic_directives.without_directives(change)
        elif rule.strategy == "merge":
            merged = merge_lists(out[key], patch[key], rule.key, self._merger(rule.type), False)
        else:
            merged = change
        out[key] = order_by_directive(merged, order, out.get(key) or [], change or [], rule.key)
        patch.pop(key, None)

    def _merger(self, type: Type) -> strategic_directives.Merger:
        return lambda original, patch: self.objects(original, patch, type)

    def _rule(self, type: Type, key: str) -> _MergeRule:
        if type.kind != "struct" and type.kind in _GO_KINDS:
            kind = _GO_KINDS[type.kind]
            raise StrategicPatchError(
                unexpected(f"merging an object in json but data type is not struct, instead is: {kind}")
            )
        hidden = type.kind == "either"  # Kubernetes looks for the field in the Go type, which has other fields
        field = None if hidden else self._schemas.fields.get(type.ref, _NO_FIELDS).get(key)
        if field is None:
            name = type.go.rpartition(".")[2] if hidden else type.ref.rpartition(".")[2] or _GO_STRUCTS[type.kind]
            raise StrategicPatchError(
                unexpected(f'unable to find api field in struct {name} for the json field "{key}"')
            )
        strategy = next((each for each in field.patch_strategy if each != "retainKeys"), "")
        return _MergeRule(field.type, strategy, field.merge_key)

    def _item_rule(self, type: Type, key: str) -> _MergeRule:
        rule = self._rule(type, key)
        items = rule.type.items
        if rule.type.kind != "list" or items is None:
            raise StrategicPatchError(unexpected("expected slice or array type, but got: struct"))
        if items.kind in ("list", "bytes"):
            raise StrategicPatchError(unexpected("unexpected slice of slice"))
        return rule._replace(type=items)
