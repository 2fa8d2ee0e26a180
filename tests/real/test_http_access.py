"""Who may ask: somebody with no token, with a wrong one, with the right one."""

from __future__ import annotations

import pytest

from harness.both import Both
from harness.objects import CONFIG_MAPS, PODS, config_map
from harness.scenario import Case, Step, case, cases_of, get, post

pytestmark = pytest.mark.real

STRANGERS = [
    case(
        "no token",
        *(
            Step("GET", path, None, {"Authorization": ""})
            for path in (PODS, "/api", "/apis", "/", "/odd", "/openapi/v3")
        ),
    ),
    case(
        "no token where none is needed",
        *(Step("GET", path, None, {"Authorization": ""}) for path in ("/healthz", "/livez", "/readyz", "/version")),
    ),
    case("a wrong token", *(get(path, Authorization="Bearer wrong") for path in (PODS, "/version", "/healthz"))),
    case(
        "an authorization that is no bearer",
        *(get(PODS, Authorization=value) for value in ("Basic YTpi", "Bearer", "bearer x", "Odd")),
    ),
    case("a write without a token", Step("POST", CONFIG_MAPS, config_map("x"), {"Authorization": ""})),
]
REVIEWED = [
    case(
        "asking about oneself",
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "{ns}"}},
            },
        ),
    ),
]
CASES = cases_of(STRANGERS, REVIEWED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_access_is_decided_the_same(both: Both, case: Case) -> None:
    both.agree(case)
