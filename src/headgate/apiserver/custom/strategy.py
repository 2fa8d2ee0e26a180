"""The strategy of custom objects: which fields an endpoint may change, the generation, and validation by the schema.

CEL rules (``x-kubernetes-validations``) are stored and not evaluated. Where kube-apiserver reports that it skipped the
rules because of other errors, this server reports the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.apply.path_elements import go_float
from headgate.apimachinery.strategy import Strategy, UpdateRules
from headgate.apimachinery.strategy.contract import StrategyContext
from headgate.apimachinery.strategy.prepare import STATUS, bump_generation, keep_field
from headgate.apimachinery.structural.embedded_resources import check_embedded
from headgate.apimachinery.structural.list_types import check_lists
from headgate.apimachinery.structural.schema import StructuralSchema
from headgate.apimachinery.structural.validation import compile_schema
from headgate.apiserver.kinds.scheme import ScalePaths
from headgate.kube import field_errors, names
from headgate.kube.field_errors import FieldErrors, FieldErrorType
from headgate.kube.schema import GroupVersionKind
from headgate.kube.serializer.json_decoder import with_go_numbers
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update

Object = dict[str, Any]

_CEL_RULES: Final = "x-kubernetes-validations"
_SPEC: Final = (("spec",),)
_MAX_REPLICAS: Final = 2**31 - 1
# After an error of one of these types, kube-apiserver does not evaluate CEL rules.
_BLOCKS_CEL: Final = frozenset(
    {
        FieldErrorType.NOT_SUPPORTED,
        FieldErrorType.REQUIRED,
        FieldErrorType.TOO_LONG,
        FieldErrorType.TOO_MANY,
        FieldErrorType.TYPE_INVALID,
    }
)
_CEL_SKIPPED: Final = field_errors.invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)
_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def make_strategy(
    gvk: GroupVersionKind,
    schema: Mapping[str, Any],
    root: StructuralSchema,
    *,
    namespaced: bool,
    has_status: bool,
    scale: ScalePaths | None,
) -> Strategy:
    rules = _CustomObjectRules(gvk, schema, root, namespaced, has_status, scale)
    update = UpdateRules(
        prepare=rules.prepare_update,
        validate=rules.check_update,
        warnings=_finalizer_warnings,
        reset_fields=STATUS if has_status else (),
    )
    status = UpdateRules(prepare=_prepare_status, validate=rules.check_status, reset_fields=_SPEC)
    return Strategy(
        namespaced=namespaced,
        prepare_create=rules.prepare_create,
        validate_create=rules.check_create,
        warnings_create=lambda obj, ctx: _finalizer_warnings(obj, {"metadata": {}}, ctx),
        update=update,
        subresources={"status": status} if has_status else {},
        unconditional_update=False,
    )


def _prepare_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Undoes all changes of a status write except those of the status and the managed fields."""
    managed = new["metadata"].get("managedFields")
    version = new["metadata"].get("resourceVersion")
    for name in [each for each in new if each != "status"]:
        del new[name]
    new.update({name: value for name, value in old.items() if name != "status"})
    new["metadata"] = {**old["metadata"], "resourceVersion": version}
    new["metadata"].pop("managedFields", None)
    if managed is not None:
        new["metadata"]["managedFields"] = managed


class _CustomObjectRules:
    """``has_status``, ``scale``: the subresources that the version has. ``root``: ``schema`` in compiled form."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        schema: Mapping[str, Any],
        root: StructuralSchema,
        namespaced: bool,
        has_status: bool,
        scale: ScalePaths | None,
    ) -> None:
        self._gvk: Final = gvk
        self._root: Final = root
        self._namespaced: Final = namespaced
        self._has_status: Final = has_status
        self._scale: Final = scale
        self._validate: Final = compile_schema(schema)
        status = (schema.get("properties") or {}).get("status")
        self._validate_status: Final = compile_schema(status) if isinstance(status, dict) else None
        self._has_cel_rules: Final = _has_cel_rules(schema)

    def prepare_create(self, obj: Object, ctx: StrategyContext) -> None:
        if self._has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if self._has_status:
            keep_field("status", new, old)
        if _without_metadata(new) != _without_metadata(old):
            bump_generation(new, old)

    def check_create(self, obj: Object, ctx: StrategyContext) -> FieldErrors:
        problems = self._check_type(obj)
        if not problems:
            problems = validate_object_meta(
                obj["metadata"],
                namespaced=self._namespaced,
                name_rule=names.name_is_dns_subdomain,
                kube_finalizers=False,
            )
            problems += self._validate(obj, None, None, "")
            problems += self._check_scale_spec(obj) + self._check_scale_status(obj)
        problems += check_embedded(obj, self._root) + check_lists(obj, self._root)
        return self._with_skipped_cel(problems)

    def check_update(self, new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
        problems = self._check_type(new)
        if not problems:
            problems = validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
            problems += self._validate(new, old, self._root, "")
            problems += self._check_scale_spec(new) + self._check_scale_status(new)
        problems += check_embedded(new, self._root)
        if not check_lists(old, self._root):  # as in kube-apiserver, an object with repeated items can be updated
            problems += check_lists(new, self._root)
        return self._with_skipped_cel(problems)

    def check_status(self, new: Object, old: Object, ctx: StrategyContext) -> FieldErrors:
        problems = self._check_type(new)
        if not problems:
            problems = validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
            if "status" in new and self._validate_status is not None:
                node = self._root.properties.get("status")
                problems += self._validate_status(new["status"], old.get("status"), node, "status")
            problems += self._check_scale_status(new)
        if not check_lists(old, self._root):
            problems += check_lists(new, self._root)
        return self._with_skipped_cel(problems)

    def _with_skipped_cel(self, problems: FieldErrors) -> FieldErrors:
        """The errors, with their values as Go writes them, and one more error if kube-apiserver would not evaluate the
        CEL rules because of them."""
        problems = [msgspec.structs.replace(each, value=with_go_numbers(each.value)) for each in problems]
        if self._has_cel_rules and any(each.kind in _BLOCKS_CEL for each in problems):
            return [*problems, _CEL_SKIPPED]
        return problems

    def _check_type(self, obj: Object) -> FieldErrors:
        wanted = {"kind": self._gvk.kind, "apiVersion": self._gvk.api_version}
        return [
            field_errors.invalid(name, obj.get(name, ""), f"must be {text}")
            for name, text in wanted.items()
            if obj.get(name) != text
        ]

    def _check_scale_spec(self, obj: Object) -> FieldErrors:
        return [] if self._scale is None else _check_replicas(obj, self._scale.spec)

    def _check_scale_status(self, obj: Object) -> FieldErrors:
        if self._scale is None:
            return []
        problems = _check_replicas(obj, self._scale.status)
        if self._scale.selector:
            _, problem = nested(obj, self._scale.selector, str)
            if problem:
                problems.append(field_errors.invalid(f".{'.'.join(self._scale.selector)}", "", problem))
        return problems


def _check_replicas(obj: Object, path: tuple[str, ...]) -> FieldErrors:
    value, problem = nested(obj, path, int)
    count, path_text = value or 0, f".{'.'.join(path)}"
    if problem:
        return [field_errors.invalid(path_text, 0, problem)]
    if count < 0:
        return [field_errors.invalid(path_text, count, "should be a non-negative integer")]
    if count > _MAX_REPLICAS:
        return [field_errors.invalid(path_text, count, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def nested(obj: Any, path: tuple[str, ...], expected_type: type) -> tuple[Any, str]:
    """The value of type ``expected_type`` at a path, and an error text.

    The value is None if it is absent or invalid; the text is empty unless a value on the path has the wrong type. The
    texts are those of Go's ``unstructured.NestedInt64`` and ``NestedString``.
    """
    value: Any = obj
    for index, step in enumerate(path):
        if not isinstance(value, dict):
            path_text = ".".join(path[: index + 1])
            return None, f".{path_text} accessor error: {_go_value(value)}, expected map[string]interface{{}}"
        if step not in value:
            return None, ""
        value = value[step]
    if value is None or not isinstance(value, expected_type) or isinstance(value, bool):
        go_name = "int64" if expected_type is int else "string"
        return None, f".{'.'.join(path)} accessor error: {_go_value(value)}, expected {go_name}"
    return value, ""


_GO_TYPES: Final = {
    bool: "bool",
    str: "string",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def _go_value(value: Any) -> str:
    if value is None:
        return "<nil> is of the type <nil>"
    text = (
        go_float(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    )
    return f"{text} is of the type {_GO_TYPES[type(value)]}"


def _without_metadata(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _finalizer_warnings(new: Object, old: Object, ctx: StrategyContext) -> list[str]:
    added = set(new["metadata"].get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
    texts = []
    for name in sorted(added):
        texts += names.is_qualified_name(name)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            texts.append(
                f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer"
                " writers"
            )
        texts = [text if text.startswith("metadata.") else f'metadata.finalizers: "{name}": {text}' for text in texts]
    return texts


def _has_cel_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return bool(schema.get(_CEL_RULES)) or any(_has_cel_rules(inner) for inner in schema.values())
    return isinstance(schema, list) and any(_has_cel_rules(inner) for inner in schema)
