"""The generated schema tables for well-known types."""

from __future__ import annotations

import pytest

from headgate.kube.schema import Field, GroupVersionKind, Schemas

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."


def field(tables: Schemas, type_name: str, name: str) -> Field:
    return tables.fields[type_name][name]


def test_fields_have_the_order_of_the_go_struct(tables: Schemas) -> None:
    assert list(tables.fields[CORE + "Pod"]) == ["kind", "apiVersion", "metadata", "spec", "status"]


def test_every_reference_has_a_type(tables: Schemas) -> None:
    for each in tables.types.values():
        for inner in each.fields:
            here = inner.type
            while here.items is not None:
                here = here.items
            assert here.kind != "struct" or here.ref in tables.types, (each.name, inner.name)


def test_every_kind_has_a_type(tables: Schemas) -> None:
    assert set(tables.kinds.values()) <= set(tables.types)


@pytest.mark.parametrize(
    ("group", "version", "kind"),
    [
        ("", "v1", "Pod"),
        ("", "v1", "PodList"),
        ("", "v1", "Binding"),
        ("", "v1", "DeleteOptions"),
        ("apps", "v1", "DeleteOptions"),
        ("autoscaling", "v1", "Scale"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("policy", "v1", "Eviction"),
        ("authentication.k8s.io", "v1", "TokenRequest"),
        ("resource.k8s.io", "v1", "ResourceSlice"),
        ("meta.k8s.io", "v1", "Table"),
        ("", "v1", "List"),
        ("", "v1", "WatchEvent"),
    ],
)
def test_well_known_kinds_exist(tables: Schemas, group: str, version: str, kind: str) -> None:
    assert tables.type_of(GroupVersionKind(group, version, kind)) is not None


def test_a_pointer_keeps_an_explicit_zero(tables: Schemas) -> None:
    assert field(tables, CORE + "PodSpec", "terminationGracePeriodSeconds").pointer
    assert not field(tables, CORE + "PodSpec", "hostNetwork").pointer


def test_fields_have_the_right_omission_rule(tables: Schemas) -> None:
    assert field(tables, CORE + "Container", "name").omit == "never"
    assert field(tables, CORE + "Container", "image").omit == "empty"
    assert field(tables, META + "ObjectMeta", "creationTimestamp").omit == "zero"


def test_types_that_marshal_themselves_are_scalars(tables: Schemas) -> None:
    assert field(tables, META + "ObjectMeta", "deletionTimestamp").type.kind == "time"
    assert field(tables, META + "ManagedFieldsEntry", "fieldsV1").type.kind == "raw"
    assert field(tables, "io.k8s.api.coordination.v1.LeaseSpec", "renewTime").type.kind == "microtime"
    assert field(tables, CORE + "ServicePort", "targetPort").type.kind == "intorstring"
    limits = field(tables, CORE + "ResourceRequirements", "limits").type
    assert limits.items is not None
    assert (limits.kind, limits.items.kind, limits.go) == ("map", "quantity", "v1.ResourceList")
    data = field(tables, CORE + "Secret", "data").type
    assert data.items is not None
    assert data.items.kind == "bytes"


def test_lists_have_their_merge_strategy(tables: Schemas) -> None:
    ports = field(tables, CORE + "ServiceSpec", "ports")
    assert (ports.list_type, ports.list_keys) == ("map", ("port", "protocol"))
    assert (ports.merge_key, ports.patch_strategy) == ("port", ("merge",))
    assert field(tables, CORE + "PodSpec", "volumes").patch_strategy == ("merge", "retainKeys")
    assert field(tables, CORE + "ServiceSpec", "selector").map_atomic
    assert tables.types[CORE + "LocalObjectReference"].atomic


def test_defaults_of_list_keys_are_known(tables: Schemas) -> None:
    assert field(tables, CORE + "ContainerPort", "protocol").default == "TCP"


def test_inherited_fields_have_their_embedded_struct(tables: Schemas) -> None:
    assert field(tables, CORE + "Volume", "hostPath").embedded == "VolumeSource"
    assert field(tables, CORE + "Probe", "httpGet").embedded == "ProbeHandler"
    assert field(tables, CORE + "Volume", "name").embedded == ""


def test_named_scalars_keep_their_go_name(tables: Schemas) -> None:
    assert field(tables, CORE + "PodSpec", "restartPolicy").type.go == "v1.RestartPolicy"


def test_enumerations_are_known(tables: Schemas) -> None:
    assert field(tables, CORE + "PodSpec", "restartPolicy").enum == ("Always", "Never", "OnFailure")
    assert field(tables, CORE + "PodSpec", "nodeName").enum == ()


def test_a_field_may_be_granular_although_its_type_is_atomic(tables: Schemas) -> None:
    assert tables.types[CORE + "ObjectReference"].atomic
    assert field(tables, CORE + "PersistentVolumeSpec", "claimRef").map_granular
