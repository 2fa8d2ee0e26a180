"""The index of roles and bindings against a scan of all of them for every request."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.authz.rbac import BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES, RBACAuthorizer
from headgate.apiserver.authz.rules import allows, rules_of
from headgate.store import Item, Store

NAMESPACES, NAMES, PEOPLE = ("a", "b"), ("x", "y"), ("alice", "bob", "system:serviceaccount:a:x")
GROUPS = ("g", "h")
WORDS = ("*", "get", "pods", "pods/status", "*/status", "")

rules = st.fixed_dictionaries(
    {},
    optional={
        "verbs": st.lists(st.sampled_from(WORDS[:2]), max_size=2),
        "apiGroups": st.lists(st.sampled_from(("", "*", "apps")), max_size=2),
        "resources": st.lists(st.sampled_from(WORDS), max_size=2),
        "resourceNames": st.lists(st.sampled_from(NAMES), max_size=1),
        "nonResourceURLs": st.lists(st.sampled_from(("/v", "/v*", "*")), max_size=1),
    },
)
subjects = st.one_of(
    st.builds(lambda name: {"kind": "User", "name": name}, st.sampled_from(PEOPLE)),
    st.builds(lambda name: {"kind": "Group", "name": name}, st.sampled_from(GROUPS)),
    st.builds(
        lambda name, place: {"kind": "ServiceAccount", "name": name, **place},
        st.sampled_from(NAMES),
        st.sampled_from(({}, {"namespace": "a"})),
    ),
)
roles = st.builds(lambda found: {"rules": found}, st.lists(rules, max_size=2))
bindings = st.builds(
    lambda kind, name, who: {"roleRef": {"kind": kind, "name": name}, "subjects": who},
    st.sampled_from(("Role", "ClusterRole")),
    st.sampled_from(NAMES),
    st.lists(subjects, max_size=2),
)
writes = st.one_of(
    st.tuples(st.just(CLUSTER_ROLES), st.just(""), st.sampled_from(NAMES), roles),
    st.tuples(st.just(ROLES), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), roles),
    st.tuples(st.just(CLUSTER_BINDINGS), st.just(""), st.sampled_from(NAMES), bindings),
    st.tuples(st.just(BINDINGS), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), bindings),
    st.tuples(st.sampled_from((CLUSTER_ROLES, CLUSTER_BINDINGS)), st.just(""), st.sampled_from(NAMES), st.just(None)),
    st.tuples(st.sampled_from((ROLES, BINDINGS)), st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.just(None)),
)
questions = st.builds(
    lambda groups, name, asked: (UserInfo(name, tuple(groups)), asked),
    st.lists(st.sampled_from(GROUPS), max_size=2, unique=True),
    st.sampled_from(PEOPLE),
    st.one_of(
        st.builds(
            AuthorizationAttributes,
            st.just("u"),
            st.sampled_from(("get", "list")),
            st.sampled_from(("", "apps")),
            st.just("pods"),
            st.sampled_from(("", "status")),
            st.sampled_from(("", *NAMESPACES)),
            st.sampled_from(("", *NAMES)),
        ),
        st.builds(
            lambda path: AuthorizationAttributes("u", "get", path=path), st.sampled_from(("/v", "/version", "/x"))
        ),
    ),
)


def obvious(
    objects: dict[tuple[str, str, str], dict[str, Any]], user: UserInfo, asked: AuthorizationAttributes
) -> bool:
    for (resource, namespace, _), binding in objects.items():
        if resource not in (BINDINGS, CLUSTER_BINDINGS) or namespace not in ("", asked.namespace):
            continue
        if not any(_is(user, subject, namespace) for subject in binding["subjects"]):
            continue
        ref = binding["roleRef"]
        role = objects.get(
            (CLUSTER_ROLES, "", ref["name"]) if ref["kind"] == "ClusterRole" else (ROLES, namespace, ref["name"])
        )
        if role is not None and any(allows(rule, asked) for rule in rules_of(role)):
            return True
    return False


def _is(user: UserInfo, subject: dict[str, Any], namespace: str) -> bool:
    match subject:
        case {"kind": "User", "name": name}:
            return bool(user.name == name)
        case {"kind": "Group", "name": name}:
            return name in user.groups
    home = subject.get("namespace", namespace)
    return bool(home) and user.name == f"system:serviceaccount:{home}:{subject['name']}"


@settings(max_examples=150)
@given(st.lists(st.tuples(writes, questions), min_size=1, max_size=12), st.booleans())
def test_the_index_answers_as_all_the_objects_would(steps: list[Any], compacts: bool) -> None:
    store = Store()
    policy = RBACAuthorizer(store)
    objects: dict[tuple[str, str, str], dict[str, Any]] = {}
    for (resource, namespace, name, body), (user, asked) in steps:
        write(store, resource, namespace, name, body, objects)
        if compacts:
            store.compact(store.committed)
        assert policy.decide(user, asked).allowed is obvious(objects, user, asked)


def write(
    store: Store,
    resource: str,
    namespace: str,
    name: str,
    body: dict[str, Any] | None,
    objects: dict[tuple[str, str, str], dict[str, Any]],
) -> None:
    place = (resource, namespace, name)
    if body is None and place not in objects:
        return
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    data = msgspec.json.encode({"metadata": metadata, **(body or {})})
    revision = store.next_revision()
    store.stage(Item(resource, namespace, name, "uid", revision, {}, {}, data), delete=body is None)
    store.commit(revision)
    if body is None:
        del objects[place]
    else:
        objects[place] = body
