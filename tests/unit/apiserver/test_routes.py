"""The path grammar."""

from __future__ import annotations

import pytest

from headgate.apiserver.routes import Route, parse


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/pods", Route("", "v1", "pods")),
        ("/api/v1/namespaces/t/pods/a", Route("", "v1", "pods", "t", "a")),
        ("/api/v1/namespaces/t/pods/a/status", Route("", "v1", "pods", "t", "a", "status")),
        ("/apis/apps/v1/namespaces/t/deployments", Route("apps", "v1", "deployments", "t")),
        ("/api/v1/namespaces", Route("", "v1", "namespaces")),
        ("/api/v1/namespaces/t", Route("", "v1", "namespaces", "", "t")),
        ("/api/v1/namespaces/t/status", Route("", "v1", "namespaces", "", "t", "status")),
        ("/api/v1/namespaces/t/finalize", Route("", "v1", "namespaces", "", "t", "finalize")),
        ("/api/v1/watch/namespaces/t/pods", Route("", "v1", "pods", "t", deprecated_watch=True)),
        ("/api/v1/namespaces/t/pods/a/proxy/x/y", Route("", "v1", "pods", "t", "a", "proxy", ("x", "y"))),
    ],
)
def test_a_resource_path_is_split_into_its_parts(path: str, route: Route) -> None:
    assert parse(path) == route


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/x/y/z"])
def test_a_path_above_the_resources_is_no_route(path: str) -> None:
    assert parse(path) is None
