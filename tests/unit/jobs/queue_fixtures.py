"""An embedded API server with Kueue's kinds, two priorities, a flavor and a queue, for the tests of this folder."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from embedded import Embedded
from headgate.admission.settings import AdmissionSettings
from headgate.cli.embedded.admission import own_admission
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.definitions import definitions
from kueue_builders import Wire, a_cluster_queue, a_local_queue
from unit.controllers.world import World

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/namespaces/ns/workloads"
PODS = "/api/v1/namespaces/ns/pods"
COLLECTED = ("deployments", "jobs", "pods", "replicasets", "statefulsets", "workloads")
"""The kinds that the garbage collector watches in these tests. Without the list each test opens sixty watches."""
PREEMPTION: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def server_with_queue(
    cpu: int,
    flavor: Wire,
    spec: Mapping[str, Any],
    features: FeatureGates,
    settings: AdmissionSettings | None = None,
    crds: Sequence[Wire] = (),
    quota: QuotaSettings | None = None,
) -> Embedded:
    """A server with Kueue's kinds, ``crds``, the namespace ``ns``, two priorities, a flavor and a queue. ``spec``: of
    the ClusterQueue, beside its quota. With ``settings`` the server runs Headgate's admission.

    The quota controller has already written the status of the queue. All of this is made once for equal arguments and
    copied, because it takes longer than most tests.
    """
    objects = msgspec.json.encode((cpu, flavor, spec, crds))
    template = _template_with_queue(objects, features, quota or QuotaSettings())
    return _copy(template, features, settings)


@functools.cache
def _template_with_queue(objects: bytes, features: FeatureGates, quota: QuotaSettings) -> Embedded:
    cpu, flavor, spec, crds = msgspec.json.decode(objects)
    server = _copy(_template_with_kinds(msgspec.json.encode(crds)), features)
    server.uids = (f"00000000-0000-4000-a000-{number:012d}" for number in itertools.count(1))
    create(server, "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    for kind, value in (("low", 1), ("high", 100)):
        body = {"metadata": {"name": kind}, "value": value}
        create(server, f"{API}/workloadpriorityclasses", kueue_object("WorkloadPriorityClass", body))
    create(server, f"{API}/resourceflavors", kueue_object("ResourceFlavor", flavor))
    queue = a_cluster_queue("cq", {"default": {"cpu": cpu}}, **spec)
    create(server, f"{API}/clusterqueues", kueue_object("ClusterQueue", queue))
    create(server, f"{API}/namespaces/ns/localqueues", kueue_object("LocalQueue", a_local_queue()))
    World(lambda: QuotaController(quota), server=server).advance(1)
    return server


@functools.cache
def _template_with_kinds(crds: bytes) -> Embedded:
    server = Embedded(namespace="")
    server.uids = (f"00000000-0000-4000-9000-{number:012d}" for number in itertools.count(1))
    for each in (*definitions(with_older=False), *msgspec.json.decode(crds)):
        create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
    return server


def _copy(template: Embedded, features: FeatureGates, settings: AdmissionSettings | None = None) -> Embedded:
    """Another server at the time at which the template was made, with a copy of its store."""
    store = copy.deepcopy(template.api.store)
    guests = None if settings is None else own_admission(settings, store)
    return Embedded(namespace="", store=store, features=features, guests=guests, compiled_by=template)


def kueue_object(kind: str, obj: Wire) -> Wire:
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace")}
    kept = {key: value for key, value in obj.items() if key != "status"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **kept, "metadata": metadata}


def create(server: Embedded, path: str, body: Wire) -> Wire:
    response = server.post(path, body)
    assert response.status == 201, response.body
    found: Wire = response.body
    return found
