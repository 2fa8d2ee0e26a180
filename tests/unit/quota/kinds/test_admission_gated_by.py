"""kueue.x-k8s.io/admission-gated-by on a Workload: valid names, and that names can only be removed."""

from __future__ import annotations

import pytest

from unit.quota.kinds.manifests import a_workload, problems

KEY = "kueue.x-k8s.io/admission-gated-by"
AT = f"metadata.annotations[{KEY}]: "


def said(value: str | None, before: str | None = None, *, update: bool = False) -> list[str]:
    new, old = (a_workload(annotations=None if each is None else {KEY: each}) for each in (value, before))
    return [each.removeprefix(AT) for each in problems(new, old if update else None)]


@pytest.mark.parametrize(
    "value", [None, "", "example.com/a", "example.com/a,not.example.com/b", " example.com/a , example.com/b "]
)
def test_names_with_domains_are_accepted(value: str | None) -> None:
    assert said(value) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", 'Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("a.b/c,", 'Invalid value: "a.b/c,": cannot contain empty gate names'),
        ("a.b/c,a.b/c", 'Invalid value: "a.b/c,a.b/c": duplicate gate name: a.b/c'),
        ("a.b/" + "c" * 60, "Too long: may not be more than 63 bytes"),
        ("a.b/c d", 'Invalid value: "c d": '),
        ("a .b/c", 'Invalid value: "a .b": '),
    ],
)
def test_other_names_are_rejected(value: str, text: str) -> None:
    assert [each[: len(text)] for each in said(value)] == [text]


def test_63_bytes_are_not_too_long() -> None:
    assert said("a.b/" + "c" * 59) == []


@pytest.mark.parametrize(
    ("before", "after"), [("a.b/c", None), ("a.b/c", ""), ("a.b/c,d.e/f", "d.e/f"), ("a.b/c,d.e/f", "d.e/f,a.b/c")]
)
def test_names_can_be_removed_and_reordered(before: str, after: str | None) -> None:
    assert said(after, before, update=True) == []


def test_names_cannot_be_added() -> None:
    assert said("a.b/c", None, update=True) == ["Forbidden: cannot add admission gate after creation"]
    assert said("a.b/c", "", update=True) == ["Forbidden: cannot add admission gate after creation"]
    assert said("a.b/d", "a.b/c", update=True) == ["Forbidden: can only remove gates, not add new ones"]
