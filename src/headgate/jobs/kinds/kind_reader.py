"""Reads the fields of a job kind one by one: paths, clauses, number expressions.

A problem is recorded with the path of its field, and the field is read as empty, so that all problems of a file are
reported at once. ``custom.py`` knows which fields a kind has; docs/job-kinds.md documents the forms.
"""

from __future__ import annotations

from typing import Any, Final, cast

from headgate.jobs.kinds.clauses import ClauseTest, ClauseValue, JobPredicate
from headgate.jobs.kinds.job_fields import Object, Path
from headgate.jobs.kinds.number_expressions import COMBINATIONS, NumberExpression, NumberOperation
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required

_PATH_FORM: Final = "must be a path, such as spec.suspend, or a list of its steps"
_LIST_IN_PATH: Final = "must lead through maps only: a list cannot be entered"
_NOT_WRITABLE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_CLAUSE_FORM: Final = (
    "must be a path, {path: status.phase, in: [Running]}, {condition: Ready}, {absent: status.phase}, {all: […]}, or a "
    "list of such"
)
_VALUE_TESTS: Final = ("in", "notIn")
_CLAUSE_TESTS: Final = ("condition", "path", "absent", "present", "any", "all")
_NUMBER_FORM: Final = (
    "must be a number, a path, {path: spec.replicas, default: 1}, {product: […]}, {sum: […]}, {min: […]}, {max: […]}, "
    "{each: PATH, value: …} or {find: PATH, by: name, value: …}"
)
_MAX_DEPTH: Final = 8


class KindReader:
    def __init__(self) -> None:
        self.problems: FieldErrors = []

    def add_invalid(self, path: str, value: Any, detail: str) -> None:
        self.problems.append(invalid(path, value, detail))

    def object(self, value: Any, path: str, known: tuple[str, ...], detail: str) -> Object:
        if not isinstance(value, dict):
            self.add_invalid(path or "kinds", value, detail)
            return {}
        for field in value:
            if field not in known:
                text = f"is not a field here; there are {', '.join(known)}"
                self.problems.append(forbidden(f"{path}.{field}" if path else str(field), text))
        return value

    def list(self, wire: Object, field: str, path: str) -> list[Any]:
        found, source = wire.get(field), f"{path}.{field}" if path else field
        if isinstance(found, list) and found:
            return found
        self.problems.append(
            required(source, "name at least one") if not found else invalid(source, found, "must be a list")
        )
        return []

    def text(self, wire: Object, field: str, path: str, example: str) -> str:
        found = wire.get(field)
        if isinstance(found, str) and found:
            return found
        field_path = f"{path}.{field}"
        self.problems.append(
            required(field_path, example) if not found else invalid(field_path, found, f"must be text, {example}")
        )
        return ""

    def texts(self, wire: Object, field: str, path: str) -> tuple[str, ...]:
        found = wire.get(field) or []
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(found)
        self.add_invalid(f"{path}.{field}", found, "must be a list of texts")
        return ()

    # -- paths -----------------------------------------------------------------------------------------------------

    def path(self, wire: Object, field: str, path: str, *, is_required: bool = False) -> Path:
        found, source = wire.get(field), f"{path}.{field}"
        if found is None:
            if is_required:
                self.problems.append(required(source, _PATH_FORM))
            return ()
        return self._steps(found, source)

    def _steps(self, found: Any, source: str) -> Path:
        steps = found.split(".") if isinstance(found, str) else found
        if not isinstance(steps, list) or not steps or not all(isinstance(each, str) and each for each in steps):
            self.add_invalid(source, found, _PATH_FORM)
            return ()
        if any(_is_index(each) for each in steps):
            self.add_invalid(source, found, _LIST_IN_PATH)
            return ()
        return tuple(steps)

    def written_path(
        self, wire: Object, field: str, path: str, *, is_required: bool = False, is_in_element: bool = False
    ) -> Path:
        """The path of a field that users or the start of the job write: not in metadata, not in status.
        ``is_in_element``: the path begins at an element of a list or map, whose fields may have these names."""
        found = self.path(wire, field, path, is_required=is_required)
        if found and not is_in_element and found[0] in _NOT_WRITABLE:
            self.add_invalid(
                f"{path}.{field}", wire[field], f"must not be in {found[0]}: it is written with the object"
            )
        return found

    # -- clauses ---------------------------------------------------------------------------------------------------

    def clauses(self, wire: Object, field: str, path: str, *, is_required: bool = False) -> tuple[JobPredicate, ...]:
        found, source = wire.get(field), f"{path}.{field}"
        if found is None:
            if is_required:
                self.problems.append(required(source, _CLAUSE_FORM))
            return ()
        return self._clause_list(found, source, 0)

    def clause(self, wire: Object, field: str, path: str) -> JobPredicate | None:
        """One clause; a list is true if one of its items is."""
        found = self.clauses(wire, field, path)
        return None if not found else found[0] if len(found) == 1 else JobPredicate("any", clauses=found)

    def _clause_list(self, found: Any, source: str, depth: int) -> tuple[JobPredicate, ...]:
        if not isinstance(found, list):
            return (self._clause(found, source, depth),)
        if not found:
            self.problems.append(required(source, _CLAUSE_FORM))
        return tuple(self._clause(each, f"{source}[{index}]", depth) for index, each in enumerate(found))

    def _clause(self, value: Any, path: str, depth: int) -> JobPredicate:
        if isinstance(value, str):
            return JobPredicate("positive", self._steps(value, path))
        tests = [name for name in _CLAUSE_TESTS if name in value] if isinstance(value, dict) else []
        if len(tests) != 1 or depth > _MAX_DEPTH:
            self.add_invalid(path, value, _CLAUSE_FORM)
            return JobPredicate("positive")
        (test,) = tests
        self.object(value, path, (*_CLAUSE_TESTS, *_VALUE_TESTS, "each"), _CLAUSE_FORM)
        each = self.path(value, "each", path)
        listed = [name for name in _VALUE_TESTS if name in value]
        if test != "path" or len(listed) > 1:
            for name in listed:
                self.problems.append(forbidden(f"{path}.{name}", f"goes with a path, not with a {test}, and alone"))
        if test == "condition":
            if each:
                self.problems.append(forbidden(f"{path}.each", "goes with a path: only a job has conditions"))
            return JobPredicate("condition", condition=self.text(value, "condition", path, "such as Ready"))
        if test in ("any", "all"):
            inner = self._clause_list(value[test], f"{path}.{test}", depth + 1)
            return JobPredicate(cast(ClauseTest, test), clauses=inner, each=each)
        found = self.path(value, test, path, is_required=True)
        if test in ("absent", "present"):
            return JobPredicate(cast(ClauseTest, test), found, each=each)
        if not listed:
            return JobPredicate("positive", found, each=each)
        return JobPredicate(cast(ClauseTest, listed[0]), found, self._values(value, listed[0], path), each=each)

    def _values(self, wire: Object, field: str, path: str) -> tuple[ClauseValue, ...]:
        found = wire.get(field)
        if isinstance(found, list) and found and all(isinstance(each, str | int) for each in found):
            return tuple(found)
        self.add_invalid(f"{path}.{field}", found, "must be a list of texts, numbers, true or false")
        return ()

    # -- numbers ---------------------------------------------------------------------------------------------------

    def number(self, wire: Object, field: str, path: str) -> NumberExpression | None:
        return None if wire.get(field) is None else self._number(wire[field], f"{path}.{field}", 0)

    def _number(self, value: Any, path: str, depth: int) -> NumberExpression:
        if isinstance(value, int) and not isinstance(value, bool):
            return NumberExpression("constant", value)
        if isinstance(value, str | list):
            return NumberExpression("path", path=self._steps(value, path))
        known_operations = (*COMBINATIONS, "path", "each", "find")
        operations = [name for name in known_operations if name in value] if isinstance(value, dict) else []
        if len(operations) != 1 or depth > _MAX_DEPTH:
            self.add_invalid(path, value, _NUMBER_FORM)
            return NumberExpression("constant")
        (operation,) = operations
        if operation in COMBINATIONS:
            self.object(value, path, (operation,), _NUMBER_FORM)
            listed = self.list(value, operation, path)
            parts = [self._number(each, f"{path}.{operation}[{n}]", depth + 1) for n, each in enumerate(listed)]
            return NumberExpression(cast(NumberOperation, operation), parts=tuple(parts))
        known = {"path": ("path", "default"), "each": ("each", "value"), "find": ("find", "by", "value")}[operation]
        self.object(value, path, known, _NUMBER_FORM)
        found = self.path(value, operation, path, is_required=True)
        if operation == "path":
            default = value.get("default")
            if not isinstance(default, int) or isinstance(default, bool):
                self.add_invalid(f"{path}.default", default, "must be a number")
                default = None
            return NumberExpression("path", default, found)
        if value.get("value") is None:
            self.problems.append(required(f"{path}.value", _NUMBER_FORM))
        part = self._number(value.get("value", 1), f"{path}.value", depth + 1)
        by = self.path(value, "by", path)
        return NumberExpression(cast(NumberOperation, operation), path=found, parts=(part,), by=by)


def _is_index(step: str) -> bool:
    return step.isdecimal() or any(sign in step for sign in "[]*")
