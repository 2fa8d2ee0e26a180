"""One rule against one request, and rules against rules."""

from __future__ import annotations

import pytest

from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apiserver.authz.rules import PolicyRule, allows, described, rules_of, uncovered

PODS = PolicyRule(("get", "list"), ("",), ("pods",))


def asked(
    verb: str = "get", group: str = "", resource: str = "pods", subresource: str = "", name: str = ""
) -> AuthorizationAttributes:
    return AuthorizationAttributes("u", verb, group, resource, subresource, "", name)


def test_a_rule_allows_what_it_says_and_nothing_else() -> None:
    assert allows(PODS, asked())
    assert not allows(PODS, asked("delete"))
    assert not allows(PODS, asked(group="apps"))
    assert not allows(PODS, asked(resource="nodes"))


def test_the_right_to_a_resource_is_none_to_its_subresources() -> None:
    assert not allows(PODS, asked(subresource="status"))
    assert allows(PolicyRule(("get",), ("",), ("pods/status",)), asked(subresource="status"))
    assert allows(PolicyRule(("get",), ("",), ("*/status",)), asked(subresource="status"))
    assert not allows(PolicyRule(("get",), ("",), ("*/status",)), asked())
    assert allows(PolicyRule(("get",), ("",), ("*",)), asked(subresource="status"))


def test_a_star_means_everything_only_if_it_is_the_whole_value() -> None:
    assert allows(PolicyRule(("*",), ("*",), ("*",)), asked("anything", "any.group", "things"))
    assert not allows(PolicyRule(("get",), ("*.example",), ("*",)), asked(group="x.example"))


def test_names_narrow_a_rule_and_leave_nothing_for_requests_without_one() -> None:
    named = PolicyRule(("get", "list"), ("",), ("pods",), ("a", "b"))
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
    assert allows(PolicyRule(("get",), urls=(url,)), AuthorizationAttributes("u", "get", path=path)) is matches


def test_a_rule_for_resources_allows_no_path_and_the_other_way_round() -> None:
    assert not allows(PolicyRule(("get",), ("*",), ("*",)), AuthorizationAttributes("u", "get", path="/version"))
    assert not allows(PolicyRule(("get",), urls=("*",)), asked())


def test_rights_are_covered_one_by_one() -> None:
    owned = [PODS, PolicyRule(("*",), ("apps",), ("deployments",))]
    assert uncovered(owned, [PolicyRule(("get",), ("", "apps"), ("pods", "deployments"))]) == [
        PolicyRule(("get",), ("",), ("deployments",)),
        PolicyRule(("get",), ("apps",), ("pods",)),
    ]


def test_a_right_without_names_is_not_covered_by_one_with_names() -> None:
    named = PolicyRule(("get",), ("",), ("pods",), ("a",))
    assert uncovered([named], [PolicyRule(("get",), ("",), ("pods",))])
    assert not uncovered([PolicyRule(("get",), ("",), ("pods",))], [named])
    assert uncovered([named], [PolicyRule(("get",), ("",), ("pods",), ("a", "b"))]) == [
        PolicyRule(("get",), ("",), ("pods",), ("b",))
    ]


def test_a_star_is_covered_by_a_star_only() -> None:
    assert uncovered([PolicyRule(("get", "list"), ("",), ("pods",))], [PolicyRule(("*",), ("",), ("pods",))])
    assert not uncovered([PolicyRule(("*",), ("*",), ("*",))], [PolicyRule(("*",), ("x",), ("y/z",))])
    assert not uncovered([PolicyRule(("get",), ("",), ("*/scale",))], [PolicyRule(("get",), ("",), ("things/scale",))])


def test_paths_are_covered_by_their_beginning() -> None:
    assert not uncovered([PolicyRule(("get",), urls=("/logs/*",))], [PolicyRule(("get",), urls=("/logs/x",))])
    assert uncovered([PolicyRule(("get",), urls=("/logs/x",))], [PolicyRule(("get",), urls=("/logs/*",))])


def test_missing_rights_are_reported_by_resource_with_all_verbs() -> None:
    lacking = uncovered(
        [], [PolicyRule(("get", "list"), ("",), ("pods",), ("n",)), PolicyRule(("get", "put"), urls=("/x",))]
    )
    assert lacking is not None
    assert described(lacking) == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["n"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
        '{NonResourceURLs:["/x"], Verbs:["put"]}',
    ]


def test_a_rule_survives_the_wire() -> None:
    rule = PolicyRule(("get",), ("",), ("pods",), ("a",))
    assert rules_of({"rules": [rule.wire()]}) == (rule,)
    assert rules_of({"rules": None}) == rules_of({}) == ()


def test_a_rule_that_means_too_many_rights_is_not_taken_apart() -> None:
    words = tuple(f"w{number}" for number in range(1_000))
    huge = PolicyRule(words, words, words, words)
    assert uncovered([PolicyRule(("get",), ("",), ("pods",)), PolicyRule(words, words, words[:-1])], [huge]) is None
    assert uncovered([PolicyRule(("*",), ("*",), ("*",))], [huge]) == []
    assert uncovered([PolicyRule(words, words, words)], [huge]) == []
