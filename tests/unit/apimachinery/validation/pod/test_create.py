"""Validation errors of a new pod: one rule of each kind, with the texts and the order of kube-apiserver v1.35.8.

The systematic comparison with a real server is in ``tests/real/test_pod_differential.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.validation.pod import validate_pod_create, validate_pod_template_spec
from headgate.kube.feature_gates import DEFAULTS, FeatureGates
from unit.apimachinery.validation.pod.pods import REQUIRED, create_errors, defaulted, make_pod, texts

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def test_errors_come_in_the_order_of_the_server_not_of_the_document() -> None:
    pod = make_pod(
        schedulingGates=[{"name": "/x"}],
        restartPolicy="Sometimes",
        nodeSelector={"a": "b c"},
        volumes=[{"name": "V_"}],
        container={"name": "", "image": ""},
    )
    assert [error.split(": ")[0] for error in create_errors(pod)] == [
        "spec.volumes[0].name",
        "spec.containers[0].name",
        "spec.containers[0].image",
        "spec.restartPolicy",
        "spec.nodeSelector",
        "spec.schedulingGates[0]",
    ]


def test_a_pod_needs_a_container() -> None:
    assert create_errors(make_pod(containers=[])) == ["spec.containers: Required value"]


@pytest.mark.parametrize(
    ("container", "errors"),
    [
        ({"name": "C_"}, [f'name: Invalid value: "C_": {LABEL}']),
        ({"image": " x"}, ['image: Invalid value: " x": must not have leading or trailing whitespace']),
        (
            {"imagePullPolicy": "Maybe"},
            ['imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"'],
        ),
        (
            {"ports": [{"containerPort": 0}, {"containerPort": 70000, "protocol": "ICMP"}]},
            [
                "ports[0].containerPort: Required value",
                "ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                'ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
            ],
        ),
        (
            {"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
            ['ports[1].hostPort: Duplicate value: "TCP//9"'],
        ),
        (
            {"env": [{"name": "A=B"}, {"name": "C", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]},
            [
                'env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of printable '
                "ASCII characters other than '='",
                'env[1].valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": error converting fieldPath: field label '
                "not supported: spec.x",
                'env[1].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
            ],
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a", "subPath": "/b"}]},
            [
                'volumeMounts[0].name: Not found: "v"',
                'volumeMounts[1].name: Not found: "w"',
                'volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
                'volumeMounts.subPath: Invalid value: "/b": must be a relative path',
            ],
        ),
        (
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            {"resources": {"requests": {"example.com/gpu": "1500m"}}},
            [
                'resources.requests[example.com/gpu]: Invalid value: "1500m": must be an integer',
                "resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            {"resources": {"limits": {"hugepages-2Mi": "3Mi"}}},
            [
                'resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
                "hugepages-2Mi",
                'resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
                "hugepages-2Mi",
                "resources: Forbidden: HugePages require cpu or memory",
            ],
        ),
        (
            {"resources": {"claims": [{"name": "a"}]}},
            ['resources.claims[0]: Not found: "a": must be one of the names in pod.spec.resourceClaims which is empty'],
        ),
        (
            {"livenessProbe": {"exec": {}, "tcpSocket": {"port": 1}, "successThreshold": 2}},
            [
                "livenessProbe.exec.command: Required value",
                "livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                "livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
            [
                "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
                "terminationGracePeriodSeconds (30)"
            ],
        ),
        (
            {"securityContext": {"privileged": True, "runAsUser": -1}},
            [
                "securityContext.privileged: Forbidden: disallowed by cluster policy",
                "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
        (
            {"restartPolicyRules": [{"action": "Restart"}]},
            [
                "restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                "restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
        ),
    ],
)
def test_a_containers_errors(container: dict[str, Any], errors: list[str]) -> None:
    assert create_errors(make_pod(container=container)) == [f"spec.containers[0].{error}" for error in errors]


@pytest.mark.parametrize(
    ("volume", "errors"),
    [
        (
            {"emptyDir": {"sizeLimit": "-1"}},
            [".emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
        ),
        ({"hostPath": {"path": "/a/../b"}}, [".hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        (
            {"emptyDir": {}, "cephfs": {}, "downwardAPI": {}},
            [
                ".cephFS: Forbidden: may not specify more than 1 volume type",
                ".downwarAPI: Forbidden: may not specify more than 1 volume type",
            ],
        ),
        (
            {"configMap": {"items": [{"key": "k", "path": "..x"}]}},
            [
                ".configMap.name: Required value",
                ".configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
            ],
        ),
        ({"gcePersistentDisk": {}}, [".persistentDisk.pdName: Required value"]),
        (
            {"nfs": {"server": "s"}},
            [".nfs.path: Required value", '.nfs.path: Invalid value: "": must be an absolute path'],
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["X"]}}}},
            [
                '.ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "X": supported values: '
                '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
                ".ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "a", "items": [{"key": "k", "path": "p"}] * 2}}]}},
            ['.projected: Invalid value: "a": conflicting duplicate paths'],
        ),
    ],
)
def test_a_volumes_errors(volume: dict[str, Any], errors: list[str]) -> None:
    assert create_errors(make_pod(volumes=[{"name": "v", **volume}])) == [f"spec.volumes[0]{error}" for error in errors]


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"dnsPolicy": "None"}, ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
        (
            {"activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            {"tolerations": [{"operator": "Equal"}, {"key": "k", "operator": "Lt", "value": "1"}]},
            [
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"',
                'spec.tolerations[1].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", '
                '"Lt", "Gt"',
            ],
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "No"}]},
            [
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "No": supported values: '
                '"DoNotSchedule", "ScheduleAnyway"',
            ],
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
            [
                f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one node "
                "selector term"
            ],
        ),
        (
            {"hostUsers": False, "hostPID": True},
            ["spec.HostPID: Forbidden: when `hostUsers` is false"],
        ),
        ({"os": {"name": "plan9"}}, ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
        (
            {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}},
            ["spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod"],
        ),
        (
            {"resources": {"limits": {"cpu": "1", "example.com/x": "1"}}},
            [
                'spec.resources.limits[example.com/x]: Unsupported value: "example.com/x": supported values: "cpu", '
                '"hugepages-", "memory"'
            ],
        ),
        (
            {"resourceClaims": [{"name": "a"}]},
            [
                'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
                '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`"
            ],
        ),
        (
            {"ephemeralContainers": [{"name": "e", "image": "x"}]},
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            {"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}]},
            [
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
                "restartPolicy=Always"
            ],
        ),
    ],
)
def test_a_pods_errors(spec: dict[str, Any], errors: list[str]) -> None:
    assert create_errors(make_pod(**spec)) == errors


def test_a_privileged_container_is_valid_if_the_cluster_allows_it() -> None:
    pod = defaulted(make_pod(container={"securityContext": {"privileged": True}}))
    assert validate_pod_create(pod, FeatureGates(allow_privileged=True)) == []


def test_a_value_of_a_named_type_is_printed_as_json() -> None:
    assert create_errors(make_pod(restartPolicy="<now>")) == [
        'spec.restartPolicy: Unsupported value: "\\u003cnow\\u003e": supported values: "Always", "OnFailure", "Never"'
    ]


@pytest.mark.parametrize(
    ("annotation", "error"),
    [
        ("x", "invalid character 'x' looking for beginning of value"),
        ("{}", "json: cannot unmarshal object into Go value of type []core.Toleration"),
        ("[5]", "json: cannot unmarshal number into Go value of type core.Toleration"),
        ('[{"KEY": 5}]', "json: cannot unmarshal number into Go struct field Toleration.Key of type string"),
    ],
)
def test_an_invalid_toleration_annotation_is_an_error(annotation: str, error: str) -> None:
    key = "scheduler.alpha.kubernetes.io/tolerations"
    assert create_errors(make_pod(metadata={"annotations": {key: annotation}})) == [
        f'metadata.annotations: Invalid value: "{key}": {error}'
    ]


@pytest.mark.parametrize(("cost", "is_good"), [("5", True), ("-01", True), ("+1", False), ("007", False), ("", False)])
def test_a_deletion_cost_is_a_small_plain_integer(cost: str, is_good: bool) -> None:
    key = "controller.kubernetes.io/pod-deletion-cost"
    errors = create_errors(make_pod(metadata={"annotations": {key: cost}}))
    assert errors == (
        [] if is_good else [f'metadata.annotations[{key}]: Invalid value: "{cost}": must be a 32bit integer']
    )


def test_a_template_is_validated_like_a_pod_with_its_own_path() -> None:
    template = defaulted(make_pod(schedulingGates=[{"name": ""}], ephemeralContainers=[{"name": "e", "image": "x"}]))
    errors = texts(validate_pod_template_spec(template, "spec.template", DEFAULTS))
    assert [error.split(": ")[0] for error in errors] == [
        "spec.template.spec.schedulingGates[0]",
        "spec.template.spec.schedulingGates[0]",
        "spec.template.spec.ephemeralContainers",
    ]


def test_violations_of_a_stored_template_are_tolerated() -> None:
    bad = {"podAffinity": {REQUIRED: [{"topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b c"}}}]}}
    template = defaulted(make_pod(affinity=bad))
    assert len(validate_pod_template_spec(template, "t", DEFAULTS)) == 1
    values = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}
    bad["podAffinity"][REQUIRED][0]["labelSelector"] = values
    assert len(validate_pod_template_spec(template, "t", DEFAULTS)) == 1
    assert validate_pod_template_spec(template, "t", DEFAULTS, template) == []


def test_validation_does_not_change_a_pod() -> None:
    pod = defaulted(make_pod(volumes=[{"name": "v", "secret": {}}], nodeSelector={"a": "b c"}))
    before = repr(pod)
    validate_pod_create(pod, DEFAULTS)
    assert repr(pod) == before


@pytest.mark.parametrize("context", [None, {}, {"runAsUser": 1}])
def test_sharing_processes_and_the_host_pid_namespace_exclude_each_other(context: dict[str, Any] | None) -> None:
    security = {} if context is None else {"securityContext": context}
    refused = (
        "spec.securityContext.shareProcessNamespace: Invalid value: true: "
        "ShareProcessNamespace and HostPID cannot both be enabled"
    )
    assert create_errors(make_pod(shareProcessNamespace=True, hostPID=True, **security)) == [refused]
    assert create_errors(make_pod(shareProcessNamespace=True, hostPID=False, **security)) == []
    assert create_errors(make_pod(shareProcessNamespace=False, hostPID=True, **security)) == []
