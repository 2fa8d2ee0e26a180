"""Limit ranges fill in and refuse; results and words as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, Reply, a_pod

PODS = "/api/v1/namespaces/t/pods"
CLAIMS = "/api/v1/namespaces/t/persistentvolumeclaims"
RANGES = "/api/v1/namespaces/t/limitranges"
ANNOTATION = "kubernetes.io/limit-ranger"

Amounts = dict[str, str]


def limited(*limits: dict[str, Any]) -> Embedded:
    server = Embedded()
    assert server.post(RANGES, {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}).status == 201
    return server


def container(name: str = "c", requests: Amounts | None = None, limits: Amounts | None = None) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}}


def problem(refused: Reply, what: str = 'pods "a"') -> str:
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden"), refused
    lead = f"{what} is forbidden: "
    assert refused.body["message"].startswith(lead)
    return str(refused.body["message"][len(lead) :])


DEFAULTS = {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("own", "resources", "note"),
    [
        (
            container(),
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            "cpu, memory request for container c; cpu, memory limit for container c",
        ),
        (
            container(requests={"cpu": "500m"}),
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            "memory request for container c; cpu, memory limit for container c",
        ),
        (
            container(limits={"cpu": "3"}),
            {"limits": {"cpu": "3", "memory": "1Gi"}, "requests": {"cpu": "3", "memory": "1Gi"}},
            "memory request for container c; memory limit for container c",
        ),
    ],
)
def test_a_container_gets_what_it_leaves_open_and_the_pod_says_so(own: Any, resources: Any, note: str) -> None:
    made = limited(DEFAULTS).post(PODS, a_pod(containers=[own])).body
    assert made["spec"]["containers"][0]["resources"] == resources
    assert made["metadata"]["annotations"] == {ANNOTATION: f"LimitRanger plugin set: {note}"}


def test_a_container_that_says_everything_is_left_alone() -> None:
    full = container(requests={"cpu": "1", "memory": "1"}, limits={"cpu": "1", "memory": "1"})
    made = limited(DEFAULTS).post(PODS, a_pod(containers=[full])).body
    assert made["spec"]["containers"][0]["resources"] == full["resources"]
    assert "annotations" not in made["metadata"]


def test_init_containers_are_filled_in_after_the_others() -> None:
    server = limited({"type": "Container", "default": {"cpu": "1"}})
    pod = a_pod(initContainers=[container("first")], containers=[container("c"), container("d", limits={"cpu": "2"})])
    made = server.post(PODS, pod).body
    assert made["spec"]["initContainers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert made["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c; "
        "cpu request for init container first; cpu limit for init container first"
    )


def test_other_annotations_stay_beside_the_note() -> None:
    pod = a_pod()
    pod["metadata"]["annotations"] = {"x": "y", ANNOTATION: "mine"}
    annotations = limited(DEFAULTS).post(PODS, pod).body["metadata"]["annotations"]
    assert annotations["x"] == "y"
    assert annotations[ANNOTATION].startswith("LimitRanger plugin set: ")


def test_every_range_of_the_namespace_fills_in_and_no_other() -> None:
    server = limited({"type": "Container", "default": {"cpu": "1"}})
    server.post(
        RANGES, {"metadata": {"name": "m"}, "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}}
    )
    server.post("/api/v1/namespaces", {"metadata": {"name": "u"}})
    made = server.post(PODS, a_pod()).body
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    elsewhere = server.post("/api/v1/namespaces/u/pods", a_pod()).body
    assert elsewhere["spec"]["containers"][0]["resources"] == {}


def test_a_maximum_alone_is_also_the_default() -> None:
    made = limited({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}).post(PODS, a_pod()).body
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


CPU_BOUNDS = {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}
CPU_RATIO = {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}
MEMORY_RATIO = {"type": "Container", "maxLimitRequestRatio": {"memory": "1500m"}}


@pytest.mark.parametrize(
    ("limit", "containers", "text"),
    [
        (
            CPU_BOUNDS,
            [container(requests={"cpu": "50m"})],
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            CPU_BOUNDS,
            [container(requests={"cpu": "0.0001"})],
            "minimum cpu usage per Container is 100m, but request is 1m",
        ),
        (CPU_BOUNDS, [container(limits={"cpu": "2"})], "maximum cpu usage per Container is 1, but limit is 2"),
        (CPU_BOUNDS, [container(limits={"cpu": "1.0001"})], "maximum cpu usage per Container is 1, but limit is 1001m"),
        (
            CPU_BOUNDS,
            [container("c", limits={"cpu": "5"}), container("d", limits={"cpu": "5"})],
            "maximum cpu usage per Container is 1, but limit is 5",
        ),
        (
            CPU_BOUNDS,
            [container("c", limits={"cpu": "5"}), container("d", limits={"cpu": "6"})],
            "[maximum cpu usage per Container is 1, but limit is 5, "
            "maximum cpu usage per Container is 1, but limit is 6]",
        ),
        (
            CPU_RATIO,
            [container()],
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            CPU_RATIO,
            [container(requests={"cpu": "0"}, limits={"cpu": "1"})],
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            CPU_RATIO,
            [container(requests={"cpu": "1"})],
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            CPU_RATIO,
            [container(requests={"cpu": "300m"}, limits={"cpu": "1"})],
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333",
        ),
        (
            CPU_RATIO,
            [container(requests={"cpu": "1"}, limits={"cpu": "2.001"})],
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.001000",
        ),
        (
            MEMORY_RATIO,
            [container(requests={"memory": "4E"}, limits={"memory": "9E"})],
            "memory max limit to request ratio per Container is 1500m, but provided ratio is 2.250000",
        ),
        (
            {"type": "Container", "min": {"cpu": "9223372036854775"}},
            [container(requests={"cpu": "1"})],
            "minimum cpu usage per Container is 9223372036854775, but request is 1",
        ),
    ],
)
def test_containers_outside_their_limits_are_refused(limit: Any, containers: list[Any], text: str) -> None:
    assert problem(limited(limit).post(PODS, a_pod(containers=containers))) == text


@pytest.mark.parametrize(
    ("limit", "one"),
    [
        (CPU_BOUNDS, container(limits={"cpu": "1000m"})),
        (CPU_BOUNDS, container(requests={"cpu": "100m"})),
        (CPU_RATIO, container(limits={"cpu": "1"})),
        (CPU_RATIO, container(requests={"cpu": "1"}, limits={"cpu": "2"})),
        (MEMORY_RATIO, container(requests={"memory": "1Gi"}, limits={"memory": "1.5Gi"})),
        (MEMORY_RATIO, container(requests={"memory": "9E"}, limits={"memory": "9.1E"})),
        ({"type": "Container", "min": {"cpu": "9223372036854775"}}, container(requests={"cpu": "9223372036854776"})),
    ],
)
def test_a_container_just_within_its_limits_passes(limit: Any, one: Any) -> None:
    assert limited(limit).post(PODS, a_pod(containers=[one])).status == 201


def test_init_containers_are_bounded_too() -> None:
    pod = a_pod(initContainers=[container("first", limits={"cpu": "5"})])
    assert problem(limited(CPU_BOUNDS).post(PODS, pod)) == "maximum cpu usage per Container is 1, but limit is 5"


WHOLE = {"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "500m"}, "maxLimitRequestRatio": {"cpu": "3"}}
TOO_MUCH = "maximum cpu usage per Pod is 2, but limit is {}"
SIDECAR = {**container("side", limits={"cpu": "1"}), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {},
            "[minimum cpu usage per Pod is 500m.  No request is specified, "
            "maximum cpu usage per Pod is 2.  No limit is specified, "
            "cpu max limit to request ratio per Pod is 3, but no request is specified or request is 0]",
        ),
        (
            {"containers": [container("c", limits={"cpu": "1"}), container("d", limits={"cpu": "1500m"})]},
            TOO_MUCH.format("2500m"),
        ),
        (
            {
                "containers": [container("c", limits={"cpu": "1"})],
                "initContainers": [container("first", limits={"cpu": "5"})],
            },
            TOO_MUCH.format("5"),
        ),
        (
            {
                "containers": [container("c", limits={"cpu": "500m"})],
                "initContainers": [SIDECAR, container("second", limits={"cpu": "1500m"})],
            },
            TOO_MUCH.format("2500m"),
        ),
        (
            {"containers": [container("c", requests={"cpu": "500m"}), container("d", limits={"cpu": "100m"})]},
            "minimum cpu usage per Pod is 500m, but limit is 100m",
        ),
        (
            {"containers": [container("c", requests={"cpu": "3"}), container("d", limits={"cpu": "2"})]},
            "maximum cpu usage per Pod is 2, but request is 5",
        ),
        ({"resources": {"limits": {"cpu": "4"}}}, TOO_MUCH.format("4")),
        (
            {"resources": {"requests": {"cpu": "600m"}, "limits": {"cpu": "2"}}},
            "cpu max limit to request ratio per Pod is 3, but provided ratio is 3.333333",
        ),
    ],
)
def test_a_pod_outside_its_limits_as_a_whole_is_refused(spec: Any, text: str) -> None:
    assert problem(limited(WHOLE).post(PODS, a_pod(**spec))) == text


@pytest.mark.parametrize(
    ("first", "second", "sum_text"),
    [("1Gi", "1M", "1074741824"), ("0", "2Gi", "2Gi"), ("1G", "1Gi", "2073741824")],
)
def test_a_sum_is_shown_in_the_form_of_its_first_part(first: str, second: str, sum_text: str) -> None:
    server = limited({"type": "Pod", "max": {"memory": "1Gi"}})
    pod = a_pod(containers=[container("c", limits={"memory": first}), container("d", limits={"memory": second})])
    assert problem(server.post(PODS, pod)) == f"maximum memory usage per Pod is 1Gi, but limit is {sum_text}"


def test_limits_of_one_range_are_reported_together() -> None:
    server = limited({"type": "Container", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}})
    assert problem(server.post(PODS, a_pod(containers=[container(limits={"cpu": "3"})]))) == (
        "[maximum cpu usage per Container is 1, but limit is 3, maximum cpu usage per Pod is 1, but limit is 3]"
    )


def test_a_pod_that_exists_is_only_bounded_when_it_is_resized() -> None:
    server = limited({"type": "Container", "max": {"cpu": "1"}})
    server.post(PODS, a_pod(containers=[container(limits={"cpu": "500m"})]))
    server.patch(f"{RANGES}/l", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}})
    assert server.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}).status == 200
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}}
    refused = server.patch(f"{PODS}/a/resize", larger, "strategic")
    assert problem(refused) == "maximum cpu usage per Container is 100m, but limit is 2"


def claim(size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "v"}, "spec": spec}


STORAGE = {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}, "min": {"storage": "1Gi"}}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ("100Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Mi"),
        ("11Gi", "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi"),
        ("10737418241", "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 10737418241"),
    ],
)
def test_claims_outside_their_limits_are_refused(size: str, text: str) -> None:
    assert problem(limited(STORAGE).post(CLAIMS, claim(size)), 'persistentvolumeclaims "v"') == text


@pytest.mark.parametrize(("bound", "word"), [("min", "minimum"), ("max", "maximum")])
def test_a_limit_on_what_a_claim_cannot_even_request_refuses_every_claim(bound: str, word: str) -> None:
    server = limited({"type": "PersistentVolumeClaim", bound: {"storage": "1Gi", "cpu": "1"}})
    assert problem(server.post(CLAIMS, claim("1Gi")), 'persistentvolumeclaims "v"') == (
        f"{word} cpu usage per PersistentVolumeClaim is 1.  No request is specified"
    )


@pytest.mark.parametrize("size", ["1Gi", "10Gi"])
def test_claims_at_their_limits_pass(size: str) -> None:
    assert limited(STORAGE).post(CLAIMS, claim(size)).status == 201


def test_limits_bound_a_claim_at_every_update_until_it_is_going_away() -> None:
    server = limited(STORAGE)
    server.post(CLAIMS, claim("2Gi"))
    server.patch(f"{RANGES}/l", {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}})
    label = {"metadata": {"labels": {"a": "b"}}}
    assert problem(server.patch(f"{CLAIMS}/v", label), 'persistentvolumeclaims "v"') == (
        "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    )
    assert server.patch(f"{CLAIMS}/v/status", {"status": {"phase": "Bound"}}).status == 200
    assert "deletionTimestamp" in server.delete(f"{CLAIMS}/v").body["metadata"]
    assert server.patch(f"{CLAIMS}/v", label).status == 200
