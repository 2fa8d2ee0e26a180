from __future__ import annotations

import pytest

from headgate.apimachinery.apply.path_elements import (
    IGNORED,
    format_path,
    go_float,
    go_number,
    json_text,
    key_element,
    normal_form,
    sort_key,
    value_element,
)


def test_the_keys_of_an_item_are_written_as_compact_json() -> None:
    assert key_element([("containerPort", 80), ("protocol", "TCP")]) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert value_element("kubernetes") == 'v:"kubernetes"'


def test_values_are_escaped_as_go_escapes_them() -> None:
    assert json_text("<a&b>") == '"\\u003ca\\u0026b\\u003e"'
    assert json_text('q"\\') == '"q\\"\\\\"'
    assert json_text("\n\r\t\b\f\x01\u2028é") == '"\\n\\r\\t\\u0008\\u000c\\u0001\\u2028é"'


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("f:any thing", "f:any thing"),
        ("f:", "f:"),
        ('k:{"b":"x", "a":1.0}', 'k:{"a":1,"b":"x"}'),
        ('v: "x"', 'v:"x"'),
        ("v:1.50", "v:1.5"),
        ("v:true", "v:true"),
        ("v:null", "v:null"),
        ("v:[1, 2]", "v:[1,2]"),
        ("i:+3", "i:3"),
        ("i:-1", "i:-1"),
        ("q:later", IGNORED),
    ],
)
def test_an_element_has_one_canonical_text(given: str, text: str) -> None:
    assert normal_form(given) == text


@pytest.mark.parametrize("given", ["", "f", "field", "k:[]", "k:{", "v:", "v:NaN", "i:", "i:1_0", "é"])
def test_a_malformed_element_has_none(given: str) -> None:
    assert normal_form(given) is None


def test_integers_beyond_the_precision_of_floats_lose_digits_as_in_kubernetes() -> None:
    assert normal_form("v:9007199254740993") == "v:9007199254740992"


def test_fields_sort_before_keys_before_values_before_indexes() -> None:
    elements = ["i:0", 'v:"a"', "v:1", 'k:{"name":"b"}', 'k:{"name":"a"}', "f:z", "f:a"]
    assert sorted(elements, key=sort_key) == ["f:a", "f:z", 'k:{"name":"a"}', 'k:{"name":"b"}', "v:1", 'v:"a"', "i:0"]


def test_keys_are_ordered_by_value_not_by_their_json() -> None:
    assert sort_key('k:{"p":9}') < sort_key('k:{"p":10}') < sort_key('k:{"p":"9"}') < sort_key('k:{"p":true}')
    assert sort_key('k:{"n":"a"}') < sort_key('k:{"n":"a b"}')  # although a quote sorts after a blank
    assert sort_key('k:{"n":"a"}') < sort_key('k:{"n":"a","p":1}')


def test_a_path_is_formatted_for_messages() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:x.io/y")
    assert format_path(path) == '.spec.ports[port=80,protocol="TCP"].x.io/y'
    assert format_path(("f:finalizers", 'v:"a\\"b"')) == '.finalizers[="a\\"b"]'
    assert format_path(("f:args", "i:2")) == ".args[2]"


def test_floats_are_printed_as_go_prints_them() -> None:
    assert [go_number(x) for x in (80.0, 1.5, 1e21, 1e-7)] == ["80", "1.5", "1e+21", "1e-07"]
    shown = [go_float(x) for x in (3.0, 1.5, 1e6, 1234567.5, 1e-5, 2.5e-5, 1e300, -1e7, 0.0)]
    assert shown == ["3", "1.5", "1e+06", "1.2345675e+06", "1e-05", "2.5e-05", "1e+300", "-1e+07", "0"]
