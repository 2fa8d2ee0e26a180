"""Selectors against the plain meaning of their operators."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apimachinery.field_selectors import FieldRequirement, FieldSelector, parse_field_selector
from headgate.kube.labels import Requirement, Selector, check_requirement, parse_selector

keys = st.sampled_from(["a", "b", "in", "notin", "x.y/z"])
values = st.sampled_from(["", "1", "2", "-3", "in", "v_1", "a.b"])
label_sets = st.dictionaries(keys, values, max_size=4)

requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["=", "==", "!="]), st.tuples(values)),
    st.builds(Requirement, keys, st.sampled_from(["in", "notin"]), st.sets(values, min_size=1).map(sorted).map(tuple)),
    st.builds(Requirement, keys, st.sampled_from(["exists", "!"])),
    st.builds(Requirement, keys, st.sampled_from(["gt", "lt"]), st.tuples(st.integers(-9, 9).map(str))),
).filter(lambda each: not check_requirement(each.key, each.operator, each.values))
selectors = st.lists(requirements, max_size=4).map(lambda each: Selector(tuple(sorted(each, key=lambda r: r.key))))


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    there = requirement.key in labels
    value = labels.get(requirement.key, "")
    among = value in requirement.values
    return {
        "=": there and among,
        "==": there and among,
        "in": there and among,
        "!=": not there or not among,
        "notin": not there or not among,
        "exists": there,
        "!": not there,
        "gt": there and value.lstrip("-").isdigit() and int(value) > int(requirement.values[0])
        if requirement.operator == "gt"
        else False,
        "lt": there and value.lstrip("-").isdigit() and int(value) < int(requirement.values[0])
        if requirement.operator == "lt"
        else False,
    }[requirement.operator]


@settings(deadline=None)
@given(selectors)
def test_a_selector_is_read_back_from_its_own_text(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@settings(deadline=None)
@given(selectors, label_sets)
def test_a_selector_selects_what_every_requirement_allows(selector: Selector, labels: dict[str, str]) -> None:
    assert selector.matches(labels) is all(holds(each, labels) for each in selector.requirements)


@settings(deadline=None)
@given(st.text("ab=!(),<> inot\t", max_size=14))
def test_any_text_is_a_selector_or_an_error_and_a_selector_prints_what_reads_back(text: str) -> None:
    parsed = parse_selector(text)
    if isinstance(parsed, Selector):
        assert parse_selector(str(parsed)) == parsed
    else:
        assert parsed


field_requirements = st.builds(
    FieldRequirement,
    st.text("ab.", min_size=1, max_size=4),
    st.sampled_from(["=", "!="]),
    st.text("a,=\\ é", max_size=5),
)


@settings(deadline=None)
@given(
    st.lists(field_requirements, max_size=4), st.dictionaries(st.text("ab.", max_size=4), st.text("a,=", max_size=3))
)
def test_a_field_selector_reads_back_and_selects_by_equality(
    found: list[FieldRequirement], fields: dict[str, str]
) -> None:
    selector = FieldSelector(tuple(found))
    again = parse_field_selector(str(selector))
    assert isinstance(again, FieldSelector)
    assert sorted(map(str, again.requirements)) == sorted(map(str, found))
    expected = all((fields.get(each.field, "") == each.value) == (each.operator == "=") for each in found)
    assert selector.matches(fields) is again.matches(fields) is expected


@settings(deadline=None)
@given(st.text("ab=!,\\", max_size=10))
def test_any_text_is_a_field_selector_or_an_error(text: str) -> None:
    parsed = parse_field_selector(text)
    assert isinstance(parsed, FieldSelector) or parsed.startswith("invalid ")
