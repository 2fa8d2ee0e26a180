"""One rule against one request, and rules against rules."""

from __future__ import annotations

import pytest

from headgate.apiserver.access.rules import Rule, allows, described, rules_of, uncovered
from headgate.kube.status import Attributes

PODS = Rule(("get", "list"), ("",), ("pods",))


def asked(
    verb: str = "get", group: str = "", resource: str = "pods", subresource: str = "", name: str = ""
) -> Attributes:
    return Attributes("u", verb, group, resource, subresource, "", name)


def test_a_rule_allows_what_it_says_and_nothing_else() -> None:
    assert allows(PODS, asked())
    assert not allows(PODS, asked("delete"))
    assert not allows(PODS, asked(group="apps"))
    assert not allows(PODS, asked(resource="nodes"))


def test_the_right_to_a_resource_is_none_to_its_subresources() -> None:
    assert not allows(PODS, asked(subresource="status"))
    assert allows(Rule(("get",), ("",), ("pods/status",)), asked(subresource="status"))
    assert allows(Rule(("get",), ("",), ("*/status",)), asked(subresource="status"))
    assert not allows(Rule(("get",), ("",), ("*/status",)), asked())
    assert allows(Rule(("get",), ("",), ("*",)), asked(subresource="status"))


def test_a_star_is_everything_only_where_it_stands_alone() -> None:
    assert allows(Rule(("*",), ("*",), ("*",)), asked("anything", "any.group", "things"))
    assert not allows(Rule(("get",), ("*.example",), ("*",)), asked(group="x.example"))


def test_names_narrow_a_rule_and_leave_nothing_for_requests_without_one() -> None:
    named = Rule(("get", "list"), ("",), ("pods",), ("a", "b"))
    assert allows(named, asked(name="a"))
    assert not allows(named, asked(name="c"))
    assert not allows(named, asked("list"))


@pytest.mark.parametrize(
    ("url", "path", "matches"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz*", "/healthzz", True),
        ("*", "/anything", True),
        ("/api/*", "/apis", False),
    ],
)
def test_a_path_matches_whole_or_by_its_beginning(url: str, path: str, matches: bool) -> None:
    assert allows(Rule(("get",), urls=(url,)), Attributes("u", "get", path=path)) is matches


def test_a_rule_for_resources_allows_no_path_and_the_other_way_round() -> None:
    assert not allows(Rule(("get",), ("*",), ("*",)), Attributes("u", "get", path="/version"))
    assert not allows(Rule(("get",), urls=("*",)), asked())


def test_rights_are_covered_one_by_one() -> None:
    owned = [PODS, Rule(("*",), ("apps",), ("deployments",))]
    assert uncovered(owned, [Rule(("get",), ("", "apps"), ("pods", "deployments"))]) == [
        Rule(("get",), ("",), ("deployments",)),
        Rule(("get",), ("apps",), ("pods",)),
    ]


def test_a_right_without_names_is_not_covered_by_one_with_names() -> None:
    named = Rule(("get",), ("",), ("pods",), ("a",))
    assert uncovered([named], [Rule(("get",), ("",), ("pods",))])
    assert not uncovered([Rule(("get",), ("",), ("pods",))], [named])
    assert uncovered([named], [Rule(("get",), ("",), ("pods",), ("a", "b"))]) == [
        Rule(("get",), ("",), ("pods",), ("b",))
    ]


def test_a_star_is_covered_by_a_star_only() -> None:
    assert uncovered([Rule(("get", "list"), ("",), ("pods",))], [Rule(("*",), ("",), ("pods",))])
    assert not uncovered([Rule(("*",), ("*",), ("*",))], [Rule(("*",), ("x",), ("y/z",))])
    assert not uncovered([Rule(("get",), ("",), ("*/scale",))], [Rule(("get",), ("",), ("things/scale",))])


def test_paths_are_covered_by_their_beginning() -> None:
    assert not uncovered([Rule(("get",), urls=("/logs/*",))], [Rule(("get",), urls=("/logs/x",))])
    assert uncovered([Rule(("get",), urls=("/logs/x",))], [Rule(("get",), urls=("/logs/*",))])


def test_missing_rights_are_told_by_resource_with_their_verbs_together() -> None:
    lacking = uncovered([], [Rule(("get", "list"), ("",), ("pods",), ("n",)), Rule(("get", "put"), urls=("/x",))])
    assert lacking is not None
    assert described(lacking) == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["n"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
        '{NonResourceURLs:["/x"], Verbs:["put"]}',
    ]


def test_a_rule_survives_the_wire() -> None:
    rule = Rule(("get",), ("",), ("pods",), ("a",))
    assert rules_of({"rules": [rule.wire()]}) == (rule,)
    assert rules_of({"rules": None}) == rules_of({}) == ()


def test_a_rule_that_means_too_many_rights_is_not_taken_apart() -> None:
    words = tuple(f"w{number}" for number in range(1_000))
    huge = Rule(words, words, words, words)
    assert uncovered([Rule(("get",), ("",), ("pods",)), Rule(words, words, words[:-1])], [huge]) is None
    assert uncovered([Rule(("*",), ("*",), ("*",))], [huge]) == []
    assert uncovered([Rule(words, words, words)], [huge]) == []
