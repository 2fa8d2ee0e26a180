"""URL paths of resources."""

from __future__ import annotations

from headgate.kube.api_resources import LEASES, NODES, PODS


def test_paths_follow_from_group_version_and_scope() -> None:
    assert PODS.collection_path() == "/api/v1/pods"
    assert PODS.object_path("a", "p", "status") == "/api/v1/namespaces/a/pods/p/status"
    assert NODES.object_path("", "n") == "/api/v1/nodes/n"
    assert LEASES.collection_path("x") == "/apis/coordination.k8s.io/v1/namespaces/x/leases"


def test_names_are_escaped_in_paths() -> None:
    assert PODS.object_path("a", "../b?c") == "/api/v1/namespaces/a/pods/..%2Fb%3Fc"
