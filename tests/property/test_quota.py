"""Incremental ResourceQuota usage against a full recount after every change."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from embedded import Embedded
from headgate.apiserver.registry.resource_quota import amounts, quotas_of
from headgate.apiserver.registry.resource_quota_usage import calculate_usage

NAMESPACE: Final = "/api/v1/namespaces/t"
HARD: Final = {
    "all": {
        "pods": "6",
        "count/pods": "9",
        "requests.cpu": "4",
        "limits.memory": "4Gi",
        "requests.x.io/gpu": "9",
    },
    "objects": {"configmaps": "4", "services": "9", "services.nodeports": "3", "count/resourcequotas": "9"},
    "best": {"pods": "5"},
    "short": {"pods": "5", "cpu": "3"},
}
SPECS: Final = {"best": {"scopes": ["BestEffort"]}, "short": {"scopes": ["Terminating", "NotBestEffort"]}}
names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
quotas = st.sampled_from(sorted(HARD))


class BooksAgainstCounting(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.server = Embedded(keeps_quota=True)

    @rule(
        name=names,
        cpu=st.sampled_from([None, "500m", "1", "1500m"]),
        memory=st.sampled_from([None, "512Mi", "1G"]),
        gpus=st.sampled_from([None, "2"]),
        deadline_s=st.sampled_from([None, 60]),
        fails=st.booleans(),
    )
    def create_pod(
        self, name: str, cpu: str | None, memory: str | None, gpus: str | None, deadline_s: int | None, fails: bool
    ) -> None:
        limits = {key: value for key, value in (("memory", memory), ("x.io/gpu", gpus)) if value}
        resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": limits}
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        if deadline_s:
            spec["activeDeadlineSeconds"] = deadline_s
        self.server.disk_error = "full" if fails else None
        self.server.post(f"{NAMESPACE}/pods", {"metadata": {"name": name}, "spec": spec})
        self.server.disk_error = None

    @rule(name=names, phase=st.sampled_from(["Running", "Succeeded", "Failed"]))
    def move_pod(self, name: str, phase: str) -> None:
        self.server.patch(f"{NAMESPACE}/pods/{name}/status", {"status": {"phase": phase}})

    @rule(name=names, deadline_s=st.sampled_from([10, 5]))
    def hurry_pod(self, name: str, deadline_s: int) -> None:
        self.server.patch(f"{NAMESPACE}/pods/{name}", {"spec": {"activeDeadlineSeconds": deadline_s}})

    @rule(name=names, cpu=st.sampled_from(["250m", "2"]))
    def resize_pod(self, name: str, cpu: str) -> None:
        change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        self.server.patch(f"{NAMESPACE}/pods/{name}/resize", change, "strategic")

    @rule(name=names, grace_s=st.sampled_from([0, 30]), fails=st.booleans())
    def delete_pod(self, name: str, grace_s: int, fails: bool) -> None:
        self.server.disk_error = "full" if fails else None
        self.server.delete(f"{NAMESPACE}/pods/{name}", gracePeriodSeconds=str(grace_s))
        self.server.disk_error = None

    @rule(name=names, kind=st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"]))
    def create_service(self, name: str, kind: str) -> None:
        spec = {"type": kind, "ports": [{"port": 1, "name": "x"}, {"port": 2, "name": "y"}]}
        self.server.post(f"{NAMESPACE}/services", {"metadata": {"name": name}, "spec": spec})

    @rule(name=names, kind=st.sampled_from(["ClusterIP", "NodePort"]))
    def change_service(self, name: str, kind: str) -> None:
        self.server.patch(f"{NAMESPACE}/services/{name}", {"spec": {"type": kind}})

    @rule(resource=st.sampled_from(["services", "configmaps"]), name=names)
    def delete_object(self, resource: str, name: str) -> None:
        self.server.delete(f"{NAMESPACE}/{resource}/{name}")

    @rule(name=names)
    def create_config_map(self, name: str) -> None:
        self.server.post(f"{NAMESPACE}/configmaps", {"metadata": {"name": name}})

    @rule(name=quotas)
    def create_quota(self, name: str) -> None:
        spec = {"hard": HARD[name], **SPECS.get(name, {})}
        self.server.post(f"{NAMESPACE}/resourcequotas", {"metadata": {"name": name}, "spec": spec})

    @rule(name=quotas, pods=st.sampled_from(["1", "20"]))
    def change_quota(self, name: str, pods: str) -> None:
        self.server.patch(f"{NAMESPACE}/resourcequotas/{name}", {"spec": {"hard": {"pods": pods}}})

    @rule(name=quotas)
    def delete_quota(self, name: str) -> None:
        self.server.delete(f"{NAMESPACE}/resourcequotas/{name}")

    @invariant()
    def every_quota_says_what_counting_says(self) -> None:
        api = self.server.api
        for quota in quotas_of(api, "t"):
            status = quota["status"]
            assert amounts(status["hard"]) == amounts(quota["spec"]["hard"])
            assert amounts(status["used"]) == calculate_usage(api, quota), quota["metadata"]["name"]


BooksAgainstCounting.TestCase.settings = settings(
    max_examples=40,  # each of 30 steps counts a namespace anew
    stateful_step_count=30,
    deadline=None,
)
TestBooksAgainstCounting = BooksAgainstCounting.TestCase
