"""The built-in job kinds that an installation turns on by their names in Kueue's configuration.

Each row has the form of a file of ``--job-kinds`` (docs/job-kinds.md). Functions are added only where no table can say
it: KubeRay adds containers that are not in the object (``ray_pods.py``). Where Kueue has a defect, the row says what
closes it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.jobs.kinds.custom import parse_kinds
from headgate.jobs.kinds.job_fields import Object, Path
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.kinds.ray_pods import ray_refusals, with_ray_containers, with_submitter

_PODS_PER_JOB: Final = {
    "min": [{"path": "template.spec.parallelism", "default": 1}, "template.spec.completions"],
}
_JOB_SET: Final[Object] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "plural": "jobsets",
    "suspend": "spec.suspend",
    "podSets": [
        {
            "each": "spec.replicatedJobs",
            "nameFrom": "name",
            "template": "template.spec.template",
            "replicas": {"product": [{"path": "replicas", "default": 1}, _PODS_PER_JOB]},
            "done": {
                "product": [
                    {"find": "status.replicatedJobsStatus", "by": "name", "value": "succeeded"},
                    _PODS_PER_JOB,
                ]
            },
        }
    ],
    "active": {"each": "status.replicatedJobsStatus", "path": "active"},
    "ready": {
        "count": {"each": "status.replicatedJobsStatus", "value": {"sum": ["ready", "succeeded"]}},
        "of": {"each": "spec.replicatedJobs", "value": {"path": "replicas", "default": 1}},
    },
    "succeeded": {"condition": "Completed"},
    "failed": {"condition": "Failed"},
    # Child Jobs would keep the node selectors of an earlier flavor.
    "mergedChildren": "jobset.sigs.k8s.io",
}

_CLUSTER_OF_JOB: Final[Path] = ("spec", "rayClusterSpec")
_CLUSTER: Final[Path] = ("spec",)


def _ray_pod_sets(cluster_spec: Path) -> list[Object]:
    path = ".".join(cluster_spec)
    hosts = {"max": [{"path": "numOfHosts", "default": 1}, 1]}
    return [
        {"name": "head", "template": f"{path}.headGroupSpec.template"},
        {
            "each": f"{path}.workerGroupSpecs",
            "nameFrom": "groupName",
            "template": "template",
            "replicas": {"product": [{"path": "replicas", "default": 1}, hosts]},
        },
    ]


_DEPLOYMENT: Final = "status.jobDeploymentStatus"
_SHUTDOWN: Final = "spec.shutdownAfterJobFinishes"
_RAY_JOB: Final[Object] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "plural": "rayjobs",
    "suspend": "spec.suspend",
    "podSets": [
        *_ray_pod_sets(_CLUSTER_OF_JOB),
        {
            "name": "submitter",
            "template": "spec.submitterPodTemplate",
            "when": [{"absent": "spec.submissionMode"}, {"path": "spec.submissionMode", "in": ["", "K8sJobMode"]}],
        },
    ],
    "active": {"path": _DEPLOYMENT, "notIn": ["", "Suspended", "ValidationFailed"]},
    "ready": {"path": "status.rayClusterStatus.state", "in": ["ready"]},
    "succeeded": {
        "all": [{"path": _DEPLOYMENT, "in": ["Complete", "Failed"]}, {"path": "status.jobStatus", "in": ["SUCCEEDED"]}]
    },
    "failed": {
        "all": [
            {"path": _DEPLOYMENT, "in": ["Complete", "Failed"]},
            {"any": [{"absent": "status.jobStatus"}, {"path": "status.jobStatus", "notIn": ["SUCCEEDED"]}]},
        ]
    },
    "message": "status.message",
    "ignore": {"all": [{"present": "spec.clusterSelector"}, {"absent": "spec.rayClusterSpec"}]},
    "refuse": [
        {
            "when": {"all": [{"present": "spec.clusterSelector"}, {"present": "spec.rayClusterSpec"}]},
            "field": "spec.clusterSelector",
            "message": "a kueue managed job should not use an existing cluster",
        },
        {
            "when": {"all": [{"absent": "spec.clusterSelector"}, {"absent": "spec.rayClusterSpec"}]},
            "field": "spec.rayClusterSpec",
            "message": "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector",
        },
        {
            "when": [{"absent": _SHUTDOWN}, {"path": _SHUTDOWN, "in": [False]}],
            "field": _SHUTDOWN,
            "message": "a kueue managed job should delete the cluster after finishing",
            "absent": False,
        },
        {
            "when": {"path": "spec.rayClusterSpec.enableInTreeAutoscaling", "in": [True]},
            "field": "spec.rayClusterSpec.enableInTreeAutoscaling",
            "message": "a kueue managed job should only use autoscaling when workload slicing is enabled",
        },
        {
            "when": {"path": _DEPLOYMENT, "in": ["ValidationFailed"]},
            "field": _DEPLOYMENT,
            "message": "KubeRay rejects the RayJob; status.message says why",
        },
    ],
}
_RAY_CLUSTER: Final[Object] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "plural": "rayclusters",
    "suspend": "spec.suspend",
    "podSets": _ray_pod_sets(_CLUSTER),
    # Kueue frees the quota as soon as the cluster is not ready, though its pods run. Here it is free when KubeRay has
    # deleted them. The state is empty while pods start for the first time. After a suspension it stays until all pods
    # are ready, so the condition counts, too.
    "active": {
        "all": [
            {"present": "status"},
            {
                "any": [
                    {"absent": "status.state"},
                    {"path": "status.state", "notIn": ["suspended"]},
                    {
                        "each": "status.conditions",
                        "all": [
                            {"path": "type", "in": ["RayClusterSuspended"]},
                            {"path": "status", "notIn": ["True"]},
                        ],
                    },
                ]
            },
        ]
    },
    "ready": {"path": "status.state", "in": ["ready"]},
    "neverEnds": True,
    "refuse": [
        {
            "when": {"path": "spec.enableInTreeAutoscaling", "in": [True]},
            "field": "spec.enableInTreeAutoscaling",
            "message": "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the "
            'ElasticJobsViaWorkloadSlices feature gate and set the "kueue.x-k8s.io/elastic-job": "true" annotation',
        },
    ],
}


def _training_job(kind: str, version: str, replica_specs: str, *order: str) -> Object:
    """A kind of the training operator or the MPI operator. ``order``: the replica types; all are optional."""
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "plural": f"{kind.lower()}s",
        "suspend": "spec.runPolicy.suspend",
        "podSets": [
            {"each": f"spec.{replica_specs}", "order": list(order), "template": "template", "replicas": "replicas"}
        ],
        "active": {"each": "status.replicaStatuses", "path": "active"},
        "ready": {"condition": "Running"},
        "succeeded": {"condition": "Succeeded"},
        "failed": {"condition": "Failed"},
        "priorityClass": "spec.runPolicy.schedulingPolicy.priorityClass",
    }


_TRAINING_JOBS: Final = (
    _training_job("PyTorchJob", "v1", "pytorchReplicaSpecs", "Master", "Worker"),
    _training_job("TFJob", "v1", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    _training_job("XGBoostJob", "v1", "xgbReplicaSpecs", "Master", "Worker"),
    _training_job("PaddleJob", "v1", "paddleReplicaSpecs", "Master", "Worker"),
    _training_job("JAXJob", "v1", "jaxReplicaSpecs", "Worker"),
    _training_job("MPIJob", "v2beta1", "mpiReplicaSpecs", "Launcher", "Worker"),
)


_LEADER_WORKER_SET: Final[Object] = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "plural": "leaderworkersets",
    # A leader gets its group's label from the webhook of LeaderWorkerSet, which may be called after that of Headgate.
    # Its index in the StatefulSet of leaders is the same number.
    "gate": {
        "group": ["leaderworkerset.sigs.k8s.io/group-index", "apps.kubernetes.io/pod-index"],
        "size": {"path": "spec.leaderWorkerTemplate.size", "default": 1},
    },
    "podSets": [
        {"name": "leader", "template": "spec.leaderWorkerTemplate.leaderTemplate"},
        {"name": "worker", "template": "spec.leaderWorkerTemplate.workerTemplate"},
    ],
    "active": "status.readyReplicas",
    "neverEnds": True,
    "refuse": [
        {
            "when": {"path": "spec.startupPolicy", "in": ["LeaderReady"]},
            "field": "spec.startupPolicy",
            "message": "a group in a queue is admitted when all its pods exist: use LeaderCreated",
        },
    ],
}


def _read(*rows: Object) -> tuple[JobKind, ...]:
    read: Any = parse_kinds({"kinds": list(rows)})
    if not isinstance(read, tuple):
        raise ValueError("; ".join(map(str, read)))
    return read


def _with_ray(kind: JobKind, cluster_spec: Path) -> JobKind:
    return msgspec.structs.replace(
        kind,
        pod_sets=with_ray_containers(kind.pod_sets, cluster_spec),
        refusals=ray_refusals(kind.refusals, cluster_spec),
    )


def _framework_kinds() -> tuple[JobKind, ...]:
    job_set, ray_job, ray_cluster = _read(_JOB_SET, _RAY_JOB, _RAY_CLUSTER)
    ray_job = _with_ray(ray_job, _CLUSTER_OF_JOB)
    ray_job = msgspec.structs.replace(ray_job, pod_sets=with_submitter(ray_job.pod_sets))
    return job_set, ray_job, _with_ray(ray_cluster, _CLUSTER), *_read(*_TRAINING_JOBS, _LEADER_WORKER_SET)


FRAMEWORK_KINDS: Final = _framework_kinds()
