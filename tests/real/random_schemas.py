"""Random structural schemas, and values that nearly match them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]

WORDS = ["a", "b", "ab", "abc", "x1", "1", "", "2024-01-01", "10.0.0.1", "é", "a b"]
NUMBERS: list[Any] = [0, 1, 2, 3, 5, 10, -1, 1.5, 2.0, 0.1, 100]
FIELDS = ["a", "b", "c", "kind", "metadata"]
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(WORDS)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)),
    max_leaves=6,
)


def draw_schema(random: Random, depth: int = 3) -> Object:
    """A schema of a field, with all that the rules of structural schemas ask for."""
    makers = [_text, _text, _number, _number, _boolean, _int_or_string, _anything]
    if depth:
        makers += [_object, _object, _object, _list, _list, _map]
    schema = random.choice(makers)(random, depth)
    if random.random() < 0.2:
        schema["nullable"] = True
    return schema


def _text(random: Random, depth: int) -> Object:
    schema: Object = {"type": "string"}
    if random.random() < 0.3:
        schema["minLength"] = random.randint(0, 2)
    if random.random() < 0.3:
        schema["maxLength"] = random.randint(1, 4)
    if random.random() < 0.2:
        schema["pattern"] = random.choice(["^[a-z]+$", "b", r"^\d*$", "^(a|é)"])
    if random.random() < 0.2:
        schema["enum"] = random.sample(WORDS, 3)
    if random.random() < 0.2:
        schema["format"] = random.choice(["date", "ipv4", "byte", "date-time", "odd"])
    if random.random() < 0.2 and set(schema) == {"type"}:
        schema["default"] = random.choice(WORDS)
    return _with_logic(
        random, schema, lambda: random.choice([{"minLength": 2}, {"pattern": "a"}, {"enum": ["a", "b"]}])
    )


def _number(random: Random, depth: int) -> Object:
    schema: Object = {"type": random.choice(["integer", "number"])}
    if random.random() < 0.3:
        schema["minimum"] = random.choice([0, 1, 1.5])
        if random.random() < 0.5:
            schema["exclusiveMinimum"] = True
    if random.random() < 0.3:
        schema["maximum"] = random.choice([3, 5, 10.5])
        if random.random() < 0.5:
            schema["exclusiveMaximum"] = True
    if random.random() < 0.2:
        schema["multipleOf"] = random.choice([1, 2, 5])
    if random.random() < 0.2 and set(schema) == {"type"}:
        schema["default"] = random.choice([0, 1, 5])
    return _with_logic(random, schema, lambda: random.choice([{"minimum": 2}, {"maximum": 3}, {"multipleOf": 2}]))


def _boolean(random: Random, depth: int) -> Object:
    return {"type": "boolean"} if random.random() < 0.7 else {"type": "boolean", "default": random.random() < 0.5}


def _int_or_string(random: Random, depth: int) -> Object:
    return {"x-kubernetes-int-or-string": True}


def _anything(random: Random, depth: int) -> Object:
    return {"x-kubernetes-preserve-unknown-fields": True}


def _object(random: Random, depth: int) -> Object:
    names = random.sample(FIELDS[:3], random.randint(1, 3))
    schema: Object = {"type": "object", "properties": {name: draw_schema(random, depth - 1) for name in names}}
    if random.random() < 0.4:
        schema["required"] = random.sample(names, random.randint(1, len(names)))
    if random.random() < 0.2:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if random.random() < 0.2:
        schema["maxProperties"] = random.randint(1, 2)
    if random.random() < 0.15 and not schema.get("required") and "maxProperties" not in schema:
        schema["default"] = {}
    return _with_logic(random, schema, lambda: {"required": [random.choice(names)]})


def _list(random: Random, depth: int) -> Object:
    schema: Object = {"type": "array", "items": draw_schema(random, depth - 1)}
    if random.random() < 0.3:
        schema["minItems"] = random.randint(0, 2)
    if random.random() < 0.3:
        schema["maxItems"] = random.randint(1, 3)
    kind = random.random()
    if kind < 0.2:
        schema["items"] = {"type": random.choice(["string", "integer"])}
        schema["x-kubernetes-list-type"] = "set"
    elif kind < 0.4:
        key = random.choice([{"type": "string"}, {"type": "integer"}, {"type": "string", "default": "k"}])
        inner = draw_schema(random, depth - 1)
        schema["items"] = {"type": "object", "properties": {"a": key, "b": inner}, "required": ["a"]}
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    return schema


def _map(random: Random, depth: int) -> Object:
    below = draw_schema(random, depth - 1)
    schema: Object = {"type": "object", "additionalProperties": below}
    if random.random() < 0.3:
        schema["minProperties"] = 1
    return schema


def _with_logic(random: Random, schema: Object, clause: Any) -> Object:
    word = random.choice(["anyOf", "oneOf", "allOf", "not", "", "", "", "", "", ""])
    if "default" in schema:  # which a clause might refuse
        return schema
    if word == "not":
        return {**schema, "not": clause()}
    return {**schema, word: [clause(), clause()]} if word else schema


def spoiled(random: Random, schema: Object) -> Object:
    """A schema with one thing too many, or one too few."""
    place = random.choice(list(_places(schema)))
    if random.random() < 0.3 and len(place) > 1:
        place.pop(random.choice(list(place)))
    else:
        place.update(random.choice(_SPOILS))
    return schema


_SPOILS: list[Object] = [
    {"default": "a"},
    {"default": 1},
    {"default": {"b": 1}},
    {"nullable": True},
    {"type": "string"},
    {"type": "odd"},
    {"items": {"type": "string"}},
    {"additionalProperties": {"type": "string"}},
    {"additionalProperties": False},
    {"properties": {"z": {"type": "string"}}},
    {"uniqueItems": True},
    {"pattern": "a{"},
    {"pattern": "*"},
    {"enum": ["a", 1, None]},
    {"required": ["z"]},
    {"x-kubernetes-int-or-string": True},
    {"x-kubernetes-embedded-resource": True},
    {"x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-list-type": "set"},
    {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
    {"x-kubernetes-map-type": "atomic"},
    {"anyOf": [{"type": "string"}]},
    {"allOf": [{"default": 1}]},
    {"not": {"properties": {"a": {"nullable": True}}}},
    {"format": "date"},
    {"minimum": 7},
    {"maxLength": 0},
]


def _places(schema: Any) -> Iterator[Object]:
    if isinstance(schema, dict):
        if "type" in schema or "x-kubernetes-int-or-string" in schema:
            yield schema
        for below in schema.values():
            yield from _places(below)
    elif isinstance(schema, list):
        for each in schema:
            yield from _places(each)


def values(schema: Object) -> st.SearchStrategy[Any]:
    """Mostly what the schema asks for, sometimes anything at all."""
    fitting = _fitting(schema)
    return st.one_of(fitting, fitting, fitting, fitting, ANYTHING)


def _fitting(schema: Object) -> st.SearchStrategy[Any]:
    match schema.get("type"):
        case "string":
            return st.sampled_from([*WORDS, *schema.get("enum", [])])
        case "integer" | "number":
            return st.sampled_from(NUMBERS)
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(values(schema["items"]), max_size=4)
        case "object":
            named = {name: values(below) for name, below in (schema.get("properties") or {}).items()}
            additional = schema.get("additionalProperties")
            if isinstance(additional, dict):
                return st.dictionaries(st.sampled_from(FIELDS), values(additional), max_size=3)
            return st.fixed_dictionaries({}, optional={**named, "extra": ANYTHING})
        case _:
            return ANYTHING
