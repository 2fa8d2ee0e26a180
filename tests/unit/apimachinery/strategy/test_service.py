"""The strategy of Services: allocation of addresses, IP families and node ports, and changes of the type."""

from __future__ import annotations

from typing import Any

from unit.apimachinery.strategy.server import Object, create, update


def make_service(name: str = "s", **spec: Any) -> Object:
    spec.setdefault("ports", [{"port": 80}])
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "kk"}, "spec": spec}


def stored(**spec: Any) -> Object:
    result = create(make_service(**spec))
    assert not result.is_error, result.problems
    return result.body


def test_a_plain_service_gets_an_address_of_the_default_family() -> None:
    spec = stored()["spec"]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


def test_an_address_is_not_allocated_twice() -> None:
    first = stored()
    second = create(make_service("other"), others=(first,)).body
    assert second["spec"]["clusterIP"] != first["spec"]["clusterIP"]


def test_a_requested_address_must_be_free_and_in_the_range() -> None:
    first = stored()
    again = create(make_service(clusterIP=first["spec"]["clusterIP"]), others=(first,))
    assert again.problems[0][2].endswith("provided IP is already allocated")
    outside = create(make_service(clusterIP="192.0.2.1"))
    assert outside.problems[0][0] == "spec.clusterIPs"
    assert "192.0.2.1" in outside.problems[0][2]


def test_a_headless_service_gets_no_address() -> None:
    assert stored(clusterIP="None", selector={"a": "b"})["spec"]["clusterIPs"] == ["None"]


def test_a_headless_service_without_a_selector_has_both_ip_families() -> None:
    spec = stored(clusterIP="None")["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


def test_a_single_stack_cluster_rejects_dual_stack_services() -> None:
    problems = create(make_service(ipFamilyPolicy="RequireDualStack")).problems
    assert problems[0][2].endswith("this cluster is not configured for dual-stack services")


def test_ports_of_one_number_share_their_node_port() -> None:
    ports = [{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}]
    given = [port["nodePort"] for port in stored(type="NodePort", ports=ports)["spec"]["ports"]]
    assert given[0] == given[1]


def test_a_node_port_out_of_range_or_taken_is_refused() -> None:
    low = create(make_service(type="NodePort", ports=[{"port": 80, "nodePort": 80}]))
    assert low.problems == [
        [
            "spec.ports[0].nodePort",
            "FieldValueInvalid",
            "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ]
    ]
    first = stored(type="NodePort", ports=[{"port": 80, "nodePort": 30080}])
    again = create(make_service("other", type="NodePort", ports=[{"port": 80, "nodePort": 30080}]), others=(first,))
    assert again.problems[0][2] == "Invalid value: 30080: provided port is already allocated"


def test_a_load_balancer_with_local_traffic_gets_a_health_check_node_port() -> None:
    spec = stored(type="LoadBalancer", externalTrafficPolicy="Local")["spec"]
    assert 30000 <= spec["healthCheckNodePort"] <= 32767
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]


def test_an_update_with_the_same_manifest_keeps_allocated_values() -> None:
    first = stored(type="NodePort")
    again = update(make_service(type="NodePort"), first).body
    assert again["spec"] == first["spec"]


def test_an_address_is_immutable() -> None:
    first = stored()
    moved = {**first, "spec": {**first["spec"], "clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}
    assert update(moved, first).problems == [
        ["spec.clusterIPs[0]", "FieldValueInvalid", "Invalid value: {...}: may not change once set"]
    ]


def test_a_service_that_becomes_an_external_name_releases_its_address_and_ports() -> None:
    first = stored(type="NodePort")
    renamed = {**first, "spec": {**first["spec"], "type": "ExternalName", "externalName": "a.example"}}
    spec = update(renamed, first).body["spec"]
    assert "clusterIP" not in spec
    assert "ipFamilies" not in spec
    assert "nodePort" not in spec["ports"][0]


def test_an_external_name_that_becomes_a_cluster_ip_service_gets_an_address() -> None:
    first = stored(type="ExternalName", externalName="a.example")
    assert "clusterIP" not in first["spec"]
    spec = update({**first, "spec": {"type": "ClusterIP", "ports": [{"port": 1}]}}, first).body["spec"]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
