"""Decoding of JSON values to objects: errors and results observed on kube-apiserver v1.35.8."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.apimachinery.codec import codec
from headgate.kube.schema import GroupVersionKind, Schemas

TYPES = {
    "Pod": GroupVersionKind("", "v1", "Pod"),
    "Secret": GroupVersionKind("", "v1", "Secret"),
    "Service": GroupVersionKind("", "v1", "Service"),
    "Lease": GroupVersionKind("coordination.k8s.io", "v1", "Lease"),
    "ControllerRevision": GroupVersionKind("apps", "v1", "ControllerRevision"),
    "PodDisruptionBudget": GroupVersionKind("policy", "v1", "PodDisruptionBudget"),
    "SubjectAccessReview": GroupVersionKind("authorization.k8s.io", "v1", "SubjectAccessReview"),
}


def read(tables: Schemas, text: str, kind: str = "Pod") -> codec.Decoded:
    parsed = codec.decode_json(text.encode(), numbers="literal")
    assert parsed.error is None
    return codec.convert(tables, tables.kinds[TYPES[kind]], parsed.value)


def read_spec(tables: Schemas, field: str, value: str) -> codec.Decoded:
    return read(tables, f'{{"spec":{{"{field}":{value}}}}}')


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("containers", '"x"', "string into Go struct field PodSpec.spec.containers of type []v1.Container"),
        ("restartPolicy", "5", "number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
        ("restartPolicy", "{}", "object into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
        ("hostNetwork", '"true"', "string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ("priority", '"5"', "string into Go struct field PodSpec.spec.priority of type int32"),
        ("priority", "1.0", "number 1.0 into Go struct field PodSpec.spec.priority of type int32"),
        ("priority", "1e3", "number 1e3 into Go struct field PodSpec.spec.priority of type int32"),
        ("priority", "99999999999", "number 99999999999 into Go struct field PodSpec.spec.priority of type int32"),
        (
            "activeDeadlineSeconds",
            "9223372036854775808",
            "number 9223372036854775808 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        ("nodeSelector", "[]", "array into Go struct field PodSpec.spec.nodeSelector of type map[string]string"),
        ("nodeSelector", '{"a":1}', "number into Go struct field PodSpec.spec.nodeSelector of type string"),
        ("volumes", '["x"]', "string into Go struct field PodSpec.spec.volumes of type v1.Volume"),
        (
            "volumes",
            '[{"hostPath":"y"}]',
            "string into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "volumes",
            '[{"hostPath":{"path":5}}]',
            "number into Go struct field HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.path of type string",
        ),
        ("overhead", "5", "number into Go struct field PodSpec.spec.overhead of type v1.ResourceList"),
        (
            "containers",
            '[{"readinessProbe":{"httpGet":{"port":1.5}}}]',
            "number 1.5 into Go struct field HTTPGetAction.spec.containers.readinessProbe.ProbeHandler.httpGet.port"
            " of type int32",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(tables: Schemas, field: str, value: str, found: str) -> None:
    assert read_spec(tables, field, value).error == f"json: cannot unmarshal {found}"


def test_the_first_wrong_type_is_reported_unless_a_quantity_is_invalid(tables: Schemas) -> None:
    assert "spec.priority" in (read(tables, '{"spec":{"priority":"x","hostNetwork":5}}').error or "")
    error = read(tables, '{"spec":{"priority":"x","overhead":{"cpu":"x"}}}').error
    assert error == "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def test_unknown_and_repeated_fields_are_reported_in_document_order(tables: Schemas) -> None:
    decoded = read(
        tables,
        '{"metadata":{"name":"a","foo":1,"name":"b","bar":{"x":1,"x":2},"labels":{"k":"1","k":"2"}},'
        '"spec":{"containers":[{"name":"c","zap":[{"a":1}],"name":"d"}],"nodeName":"x","nodeName":"y"},"foo":1,"foo":2}',
    )
    assert decoded.strict_errors == [
        'unknown field "metadata.foo"',
        'duplicate field "metadata.name"',
        'unknown field "metadata.bar"',
        'duplicate field "metadata.labels.k"',
        'unknown field "spec.containers[0].zap"',
        'duplicate field "spec.containers[0].name"',
        'duplicate field "spec.nodeName"',
        'unknown field "foo"',
    ]
    assert decoded.obj == {
        "metadata": {"name": "b", "labels": {"k": "2"}},
        "spec": {"containers": [{"name": "d"}], "nodeName": "y"},
    }


def test_field_names_are_case_sensitive(tables: Schemas) -> None:
    assert read_spec(tables, "NodeName", '"x"').strict_errors == ['unknown field "spec.NodeName"']


def test_a_repeated_struct_is_decoded_into_the_first(tables: Schemas) -> None:
    decoded = read(
        tables,
        '{"spec":{"containers":[{"name":"c","image":"i"}],"priority":5},'
        '"spec":{"nodeName":"z","containers":[{"image":"j"}],"priority":null}}',
    )
    assert decoded.obj == {"spec": {"containers": [{"name": "c", "image": "j"}], "nodeName": "z"}}
    assert decoded.strict_errors == ['duplicate field "spec"']


def test_fields_in_raw_values_are_not_checked(tables: Schemas) -> None:
    decoded = read(tables, '{"metadata":{"managedFields":[{"fieldsV1":{"a":1.50,"a":{"b":1,"b":2}}}]}}')
    assert decoded.strict_errors == []
    raw = decoded.obj["metadata"]["managedFields"][0]["fieldsV1"]
    assert raw == {"a": {"b": 2}}
    assert type(raw) is dict


def test_an_empty_list_that_is_always_printed_is_kept(tables: Schemas) -> None:
    assert read(tables, '{"spec":{"containers":[]}}').obj == {"spec": {"containers": []}}


@pytest.mark.parametrize("value", ["null", "[]", "{}", '""', "0", "false"])
def test_values_that_go_does_not_distinguish_from_absent_are_absent(tables: Schemas, value: str) -> None:
    fields = {
        "null": ("priority", "hostNetwork", "nodeName", "containers", "nodeSelector", "affinity"),
        "[]": ("tolerations", "schedulingGates"),
        "{}": ("nodeSelector", "overhead"),
        '""': ("nodeName", "restartPolicy"),
        "0": (),
        "false": ("hostNetwork",),
    }[value]
    for field in fields:
        assert read_spec(tables, field, value).obj == {}
    assert read(tables, '{"metadata":{"generation":0,"creationTimestamp":null},"status":{}}').obj == {}


def test_an_explicit_zero_behind_a_pointer_stays(tables: Schemas) -> None:
    text = '{"priority":0,"enableServiceLinks":false,"affinity":{},"runtimeClassName":""}'
    assert read(tables, f'{{"spec":{text}}}').obj["spec"] == json.loads(text)


def test_null_in_a_list_or_map_is_the_zero_of_its_element(tables: Schemas) -> None:
    assert read_spec(tables, "schedulingGates", "[null]").obj["spec"] == {"schedulingGates": [{}]}
    assert read_spec(tables, "nodeSelector", '{"a":null}').obj["spec"] == {"nodeSelector": {"a": ""}}
    assert read_spec(tables, "overhead", '{"cpu":null}').obj["spec"] == {"overhead": {"cpu": "0"}}
    groups = read_spec(tables, "securityContext", '{"supplementalGroups":[1,null]}').obj["spec"]
    assert groups == {"securityContext": {"supplementalGroups": [1, 0]}}
    extra = read(tables, '{"spec":{"extra":{"a":null,"b":["c",null]}}}', "SubjectAccessReview").obj
    assert extra == {"spec": {"extra": {"a": None, "b": ["c", ""]}}}


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ('"100m"', "100m"),
        ("0.1", "100m"),
        ("1", "1"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1.50", "1500m"),
        ('" 1 "', "1"),
        ('"1024Ki"', "1Mi"),
        ("1.0e-3", "1e-3"),
        ("0", "0"),
    ],
)
def test_quantities_are_canonical(tables: Schemas, value: str, printed: str) -> None:
    assert read_spec(tables, "overhead", f'{{"cpu":{value}}}').obj["spec"]["overhead"] == {"cpu": printed}


@pytest.mark.parametrize("value", ['"x"', '""', "true", "[]", "{}"])
def test_an_invalid_quantity_is_rejected(tables: Schemas, value: str) -> None:
    error = read_spec(tables, "overhead", f'{{"cpu":{value}}}').error
    assert error == "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def test_times_are_canonical(tables: Schemas) -> None:
    def start(value: str) -> Any:
        return read(tables, f'{{"status":{{"startTime":{value}}}}}').obj.get("status")

    assert start('"2020-01-01T00:00:00+02:00"') == {"startTime": "2019-12-31T22:00:00Z"}
    assert start('"2020-01-01T00:00:00.999Z"') == {"startTime": "2020-01-01T00:00:00Z"}
    assert start('"0001-01-01T00:00:00Z"') is None


def test_an_invalid_time_is_rejected(tables: Schemas) -> None:
    def error(value: str) -> str | None:
        return read(tables, f'{{"status":{{"startTime":{value}}}}}').error

    assert error('"x"') == 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'
    assert error("5") == "json: cannot unmarshal number into Go struct field PodStatus.status.startTime of type string"


def test_micro_times_need_their_six_digits(tables: Schemas) -> None:
    def renewed(value: str) -> codec.Decoded:
        return read(tables, f'{{"spec":{{"renewTime":"{value}"}}}}', "Lease")

    assert renewed("2020-01-01T00:00:00.5Z").error is not None
    assert renewed("2020-01-01T02:00:00.123000+02:00").obj["spec"] == {"renewTime": "2020-01-01T00:00:00.123000Z"}


@pytest.mark.parametrize(
    ("value", "kept"), [("80", 80), ('"http"', "http"), ('""', ""), ("0", None), ("null", None), ('"0"', "0")]
)
def test_a_port_is_a_number_or_a_name(tables: Schemas, value: str, kept: int | str | None) -> None:
    ports = read(tables, f'{{"spec":{{"ports":[{{"targetPort":{value}}}]}}}}', "Service").obj["spec"]["ports"]
    assert ports == [{} if kept is None else {"targetPort": kept}]


@pytest.mark.parametrize(
    ("value", "printed"),
    [('"aGk="', "aGk="), ('"aG\\nk=\\r\\n"', "aGk="), ('"aGl="', "aGk="), ("[1,2,null]", "AQIA"), ("null", "")],
)
def test_bytes_are_canonical_base64(tables: Schemas, value: str, printed: str) -> None:
    assert read(tables, f'{{"data":{{"a":{value}}}}}', "Secret").obj["data"] == {"a": printed}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"aGk"', "illegal base64 data at input byte 0"),
        ('"aGkxaGk"', "illegal base64 data at input byte 4"),
        ('"aG k="', "illegal base64 data at input byte 2"),
        ('"aGk=x"', "illegal base64 data at input byte 4"),
        ('"aG="', "illegal base64 data at input byte 3"),
        ('"aG=x"', "illegal base64 data at input byte 2"),
        ('"a==="', "illegal base64 data at input byte 1"),
        ('"aaaa\\u00e9aaa"', "illegal base64 data at input byte 4"),
        ("5", "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"),
        ("[300]", "json: cannot unmarshal number 300 into Go struct field Secret.data of type uint8"),
    ],
)
def test_invalid_base64_is_rejected(tables: Schemas, value: str, text: str) -> None:
    assert read(tables, f'{{"data":{{"a":{value}}}}}', "Secret").error == text


def test_null_is_an_empty_object_and_other_scalars_are_errors(tables: Schemas) -> None:
    assert read(tables, "null").obj == {}
    assert read(tables, "[]").error == "json: cannot unmarshal array into Go value of type v1.Pod"


def test_decoding_does_not_change_or_share_its_input(tables: Schemas) -> None:
    text = '{"metadata":{"labels":{"a":"b"},"finalizers":["x"]},"spec":{"containers":[{"name":"c","foo":1}]}}'
    value = json.loads(text)
    obj = codec.convert(tables, tables.kinds[TYPES["Pod"]], value).obj
    obj["metadata"]["labels"]["a"] = obj["metadata"]["finalizers"][0] = obj["spec"]["containers"][0]["name"] = "changed"
    assert value == json.loads(text)
