"""The Helm chart has the same objects as `headgate install`. `test_release_life.py` installs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.helm import CHART, Helm
from headgate.install.checking import differences
from headgate.install.manifests import install_objects, needed_definitions
from headgate.install.options import InstallOptions, read_values
from headgate.runtime.webhooks.conversions import with_conversion
from headgate.runtime.webhooks.target import WebhookTarget

pytestmark = pytest.mark.real

Object = dict[str, Any]
NAMESPACE = "headgate-system"
MONITORED: Object = {
    "monitoring": {
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "metrics": {"secure": True},
}
GATES: Object = {
    "components": {"scheduler": False, "gates": True, "webhooks": True, "quota": False, "jobs": False},
    "queue": {"name": "team-a", "capability": {"cpu": 20, "nvidia.com/gpu": "4"}},
}
PLACED: Object = {
    "replicas": 3,
    "image": {"repository": "registry.example/headgate", "digest": "sha256:abc"},
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "",
    "nodeSelector": {"pool": "system"},
    "tolerations": [],
    "affinity": {"nodeAffinity": {}},
    "podLabels": {"team": "platform", "app.kubernetes.io/version": "mine"},
    "podAnnotations": {"note": "yes"},
    "serviceAccount": {"annotations": {"role": "arn:example"}},
    "hostNetwork": True,
    "extraArgs": ["--gate-all-pods", "--feature-gates=ReservationLease=true"],
    "extraVolumes": [{"name": "kinds", "configMap": {"name": "job-kinds"}}],
    "extraVolumeMounts": [{"name": "kinds", "mountPath": "/etc/kinds"}],
    "additionalRules": [{"apiGroups": ["example.com"], "resources": ["runs"], "verbs": ["get", "list", "watch"]}],
    "configuration": {"queues": {"gateAllPods": True, "trustedUsers": ["<ä&b>"]}, "takeover": True},
    "resources": {"limits": {"memory": None, "cpu": "2"}},
    "networkPolicy": {"enabled": False},
    "userRoles": {"enabled": False},
    "crds": {"enabled": False},
    "logFormat": "json",
}
POLICIES: Object = {"gatePolicies": {"enabled": True}}
PAGE: Object = {"dashboard": {"enabled": True}}
PAGE_PLACED: Object = {**PLACED, "dashboard": {"enabled": True, "tlsSecret": "page-tls", "resources": {"limits": None}}}
VALUES = {
    "defaults": {},
    "monitored": MONITORED,
    "gates only": GATES,
    "placed": PLACED,
    "gate policies": POLICIES,
    "page": PAGE,
    "page with a certificate": PAGE_PLACED,
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_chart_has_the_objects_of_headgate_install(values: Object, helm_binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    helm = Helm(helm_binary, tmp_path)
    helm.said("lint", "--strict", str(CHART), "-f", str(file))
    printed = helm.said("template", "headgate", str(CHART), "-f", str(file), "--skip-tests", "--no-hooks")
    options = read_values(values)
    assert isinstance(options, InstallOptions)
    definitions = [_served_by(each, options) for each in needed_definitions(options)]
    expected = [*definitions, *install_objects(options, NAMESPACE)[1:]]
    ours = {_key(each): _without_manager(each) for each in expected}
    theirs = {_key(each): _without_manager(each) for each in yaml.safe_load_all(printed) if each}
    assert theirs.keys() == ours.keys()
    for key, each in ours.items():
        assert list(differences(each, theirs[key])) == [], key


def _served_by(definition: Object, options: InstallOptions) -> Object:
    """As replicas of a release with webhooks serve it, except the certificates: the revisions of a release must not
    differ in it. `headgate install --apply` reads whether the definition on the cluster is served so."""
    if not options.components.webhooks or not definition["metadata"]["name"].endswith("kueue.x-k8s.io"):
        return definition
    found = with_conversion(definition, WebhookTarget(namespace=NAMESPACE, service="headgate"), b"")
    assert found is not None
    client = found["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client.pop("caBundle") == ""
    return found


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"replicas": "two"}, "replicas"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"components": {"gates": True}}, "exclude each other"),
        ({**POLICIES, "components": {"webhooks": False}}, "needs components.webhooks"),
        ({"logLevel": "loud"}, "logLevel"),
    ],
)
def test_wrong_values_are_refused_by_name(values: Object, problem: str, helm_binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = Helm(helm_binary, tmp_path).run("template", "headgate", str(CHART), "-f", str(file))
    assert done.exit != 0
    assert problem in done.stderr


def _key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _without_manager(obj: Object) -> Object:
    """The label managed-by, the instance, which is the release or the namespace, and, on definitions, the policy that
    keeps them are the differences that are meant."""
    copied: Object = json.loads(json.dumps(obj))
    for meta in (copied["metadata"], copied.get("spec", {}).get("template", {}).get("metadata", {})):
        labels = meta.get("labels") or {}
        labels.pop("app.kubernetes.io/managed-by", None)
        assert labels.pop("app.kubernetes.io/instance", None) in (None, "headgate", NAMESPACE)
    if copied["kind"] == "CustomResourceDefinition":
        copied["metadata"].pop("annotations", None)
    return copied
