"""The admission plugin ServiceAccount, on both servers: the account of a pod, and what its absence is answered with.

Token volumes are not compared: the embedded server adds none, so pods here say that they want none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.objects import PODS, pod
from harness.real_server import RealServer
from harness.request_cases import Case, Step, case, cases_of, get, patch, post
from harness.server_pair import ServerPair, report_path
from real.allowed_differences import ALLOWED

pytestmark = pytest.mark.real

ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
ENFORCED = {"kubernetes.io/enforce-mountable-secrets": "true"}
MIRROR = {"kubernetes.io/config.mirror": "m"}


def account(name: str = "default", annotations: dict[str, str] | None = None, **fields: Any) -> Step:
    metadata = {"name": name, "annotations": annotations} if annotations else {"name": name}
    return post(ACCOUNTS, {"metadata": metadata, **fields}).until(201)


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = pod(name, automountServiceAccountToken=False, **spec)
    return made


def settled(name: str = "default") -> Step:
    """A real server's admission looks accounts up in a cache first; a pod that is admitted has been there."""
    return get(f"{ACCOUNTS}/{name}").until(200)


def mirror(name: str, **spec: Any) -> dict[str, Any]:
    made = a_pod(name, nodeName="n", **spec)
    return {**made, "metadata": {**made["metadata"], "annotations": MIRROR}}


def env(field: str, secret: str) -> dict[str, Any]:
    variable = {"name": "V", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}
    own = {"name": "c", "image": "i"}
    container = {"name": "e", "image": "i", "env": [variable]}
    return {"containers": [container]} if field == "containers" else {"containers": [own], field: [container]}


def env_from(secret: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]}]}


SECRET_VOLUME = {"volumes": [{"name": "v", "secret": {"secretName": "other"}}]}
CASES = cases_of(
    [
        case(
            "the default account",
            account(),
            settled(),
            post(PODS, a_pod("a")),
            get(f"{PODS}/a"),
            post(PODS, a_pod("b", serviceAccountName="default")),
            post(PODS, a_pod("c", serviceAccount="default")),
            post(PODS, {**a_pod("x"), "metadata": {"generateName": "g-"}}),
            post(f"{PODS}?dryRun=All", a_pod("d")),
            patch(f"{PODS}/a", {"spec": {"serviceAccountName": "other"}}),
            patch(f"{PODS}/a", {"spec": {"serviceAccountName": None, "serviceAccount": None}}),
            get(f"{PODS}?fieldSelector=spec.serviceAccountName=default"),
        ),
        case(
            "an account that does not exist",
            post(PODS, a_pod("a", serviceAccountName="none")),
            post(PODS, a_pod("a", serviceAccount="none")),
            post(PODS, {**a_pod("x", serviceAccountName="none"), "metadata": {"generateName": "g-"}}),
            post(PODS, a_pod("a", serviceAccountName="Odd_Name")),
            post("/api/v1/namespaces/absent/pods", a_pod("a")),
            get(PODS),
        ),
        case("a namespace without accounts", post(PODS, a_pod("a"))),
        case(
            "pull secrets of an account",
            account("robot", imagePullSecrets=[{"name": "one"}, {"name": "two"}]),
            settled("robot"),
            post(PODS, a_pod("a", serviceAccountName="robot")),
            post(PODS, a_pod("b", serviceAccountName="robot", imagePullSecrets=[{"name": "mine"}])),
            post(PODS, a_pod("c", serviceAccountName="robot", imagePullSecrets=[])),
        ),
        case(
            "an account that lets its pods use only its own secrets",
            account(annotations=ENFORCED, secrets=[{"name": "own"}], imagePullSecrets=[{"name": "pull"}]),
            settled(),
            post(PODS, a_pod("a")),
            post(PODS, a_pod("b", **SECRET_VOLUME)),
            post(PODS, a_pod("b", volumes=[{"name": "v", "secret": {"secretName": "own"}}])),
            *(post(PODS, a_pod("c", **env(field, "other"))) for field in ("containers", "initContainers")),
            *(
                post(PODS, a_pod(f"d-{field.lower()}", **env(field, "own")))
                for field in ("containers", "initContainers")
            ),
            post(PODS, a_pod("e", **env_from("other"))),
            post(PODS, a_pod("e", **env_from("own"))),
            post(PODS, a_pod("f", imagePullSecrets=[{"name": "pull"}, {"name": "other"}])),
            *(
                patch(
                    f"{PODS}/a/ephemeralcontainers",
                    {"spec": {"ephemeralContainers": env("ephemeralContainers", secret)["ephemeralContainers"]}},
                )
                for secret in ("other", "own")
            ),
        ),
        case(
            "an account whose annotation is no",
            account(annotations={"kubernetes.io/enforce-mountable-secrets": "no"}),
            settled(),
            post(PODS, a_pod("a", **SECRET_VOLUME)),
        ),
        case(
            "mirror pods",
            account(),
            settled(),
            post(PODS, mirror("a")),
            post(PODS, mirror("b", serviceAccountName="default")),
            post(PODS, mirror("c", **SECRET_VOLUME)),
            post(PODS, mirror("d", **env("containers", "s"))),
            post(PODS, mirror("e", imagePullSecrets=[{"name": "s"}])),
        ),
    ]
)


@pytest.fixture(scope="module")
def with_accounts(
    kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory, met_allowances: Counter[str]
) -> Iterator[ServerPair]:
    real = RealServer(tmp_path_factory.mktemp("real"), kube_binaries, disabled_plugins="TaintNodesByCondition")
    ours = EmbeddedServer(tmp_path_factory.mktemp("ours"), kube_binaries / "kubectl", disabled_plugins="")
    both = ServerPair(real, ours, ALLOWED, report_path(), met_allowances)
    yield both
    both.close()
    real.stop()
    ours.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pods_get_their_account_and_are_refused_the_same(with_accounts: ServerPair, case: Case) -> None:
    with_accounts.compare(case)
