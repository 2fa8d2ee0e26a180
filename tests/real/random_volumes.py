"""Random storage and pods from a seed, so that volume plugins have every reason to accept and to reject a node.

Each pod also requires affinity to a pod that does not exist. Volume plugins run before that is found out, so the pod's
condition counts the nodes that they reject, and no pod is ever bound.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from clusters import a_node, a_pod
from storage import HOST, WAITS, ZONE

Object = dict[str, Any]

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
NOBODY = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"is": "nobody"}}}
NEAR_NOBODY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NOBODY]}}
IQN = "iqn.2026-01.com.example:i"
NODES = 6
CLAIMS = 60
CLASSES = ("local", "anywhere", "zonal", "tight", "now")
SIZE_STEP = 37
"""No two volumes have the same size: of such, kube-scheduler takes one by chance."""


class RandomStorage(NamedTuple):
    """Everything to be made, kind by kind in this order; ``running`` pods have a node."""

    nodes: list[Object]
    csi_nodes: list[Object]
    drivers: list[Object]
    classes: list[Object]
    capacities: list[Object]
    claims: list[Object]
    volumes: list[Object]
    attachments: list[Object]
    running: list[Object]
    pods: list[Object]


def draw(number: int, pods: int) -> RandomStorage:
    random = Random(number)
    nodes = [_node(random, i) for i in range(NODES)]
    claims = [_claim(random, i) for i in range(CLAIMS)]
    volumes = [each for i, claim in enumerate(claims) for each in _volumes_for(random, i, claim)]
    names = [each["metadata"]["name"] for each in volumes]
    return RandomStorage(
        nodes,
        [_csi_node(random, each) for each in nodes if random.random() < 0.8],
        [{"metadata": {"name": each}, "spec": {"storageCapacity": each == "tight"}} for each in ("tight", "zonal")],
        _classes(random),
        [_capacity(random, i) for i in range(4)],
        claims,
        volumes,
        [_attachment(random, i, random.choice(names)) for i in range(12)],
        [_running(random, i) for i in range(10)],
        [_pod(random, i) for i in range(pods)],
    )


def _node(random: Random, i: int) -> Object:
    labels = {HOST: f"n{i}"}
    if random.random() < 0.8:
        labels[random.choice([ZONE, ZONE, OLD_ZONE])] = random.choice("ab")
    if random.random() < 0.3:
        labels[REGION] = random.choice("rs")
    return a_node(f"n{i}", labels=labels, pods="110")


def _csi_node(random: Random, node: Object) -> Object:
    drivers: list[Object] = [
        {"name": name, "nodeID": "x", "allocatable": {"count": random.randint(1, 3)}}
        for name in ("d", "zonal", "ebs.csi.aws.com")
        if random.random() < 0.7
    ]
    return {"metadata": {"name": node["metadata"]["name"]}, "spec": {"drivers": drivers}}


def _classes(random: Random) -> list[Object]:
    values = random.choice([["a"], ["b"], ["a", "b"]])
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]
    provisioners = {"local": "kubernetes.io/no-provisioner", "now": "other", "anywhere": "other"}
    return [
        {
            "metadata": {"name": name},
            "provisioner": provisioners.get(name, name),
            "volumeBindingMode": "Immediate" if name == "now" else WAITS,
            **({"allowedTopologies": topologies} if name == "zonal" else {}),
        }
        for name in CLASSES
    ]


def _capacity(random: Random, i: int) -> Object:
    wire: Object = {"metadata": {"name": f"x{i}"}, "storageClassName": "tight"}
    wire |= {"nodeTopology": {"matchLabels": random.choice([{ZONE: "a"}, {ZONE: "b"}, {HOST: "n1"}, {HOST: "n2"}])}}
    wire |= {"capacity": random.choice(["1Gi", "2Gi", "8Gi"])}
    return {**wire, **({"maximumVolumeSize": random.choice(["1Gi", "4Gi"])} if random.random() < 0.3 else {})}


def _claim(random: Random, i: int) -> Object:
    metadata: Object = {"name": f"c{i}", "annotations": {}}
    modes = random.choice([["ReadWriteOnce"]] * 4 + [["ReadWriteOncePod"], ["ReadOnlyMany"], ["ReadWriteMany"]])
    size = f"{random.choice([1000, 2000, 4000])}Mi"
    spec: Object = {"accessModes": modes, "resources": {"requests": {"storage": size}}}
    spec["storageClassName"] = random.choice(["", *CLASSES, *CLASSES[:4], *CLASSES[:2]])
    wire: Object = {"metadata": metadata, "spec": spec, "status": {}}
    if random.random() < 0.4:
        spec["volumeName"] = f"v{i}"
        if random.random() < 0.9:
            metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
            wire["status"] = {"phase": "Lost" if random.random() < 0.1 else "Bound"}
    elif random.random() < 0.1:
        metadata["annotations"]["volume.kubernetes.io/selected-node"] = f"n{random.randrange(NODES + 1)}"
    if random.random() < 0.05:
        metadata["finalizers"] = ["example.com/stays"]
    if random.random() < 0.1:
        spec["selector"] = {"matchLabels": {"tier": "fast"}}
    if random.random() < 0.1:
        spec["volumeMode"] = "Block"
    return wire


def _volumes_for(random: Random, i: int, claim: Object) -> list[Object]:
    """The claim's own volume, if it has one and that is there; and one or two that are free, or were."""
    found = []
    if "volumeName" in claim["spec"] and random.random() < 0.9:
        found.append(_volume(random, f"v{i}", 3 * i, claim, ref=claim["metadata"]["name"]))
    elif "volumeName" not in claim["spec"]:
        ref = claim["metadata"]["name"] if random.random() < 0.1 else None
        found += [_volume(random, f"v{i}", 3 * i, claim, ref=ref), _volume(random, f"w{i}", 3 * i + 1, claim)]
    return [each for each in found if random.random() < 0.8]


def _volume(random: Random, name: str, number: int, claim: Object, ref: str | None = None) -> Object:
    megabytes = int(claim["spec"]["resources"]["requests"]["storage"][:-2]) + random.choice([0, 0, 0, 1000])
    spec: Object = {
        "capacity": {"storage": f"{megabytes * 1024 + number * SIZE_STEP - random.choice([0, 0, 4000])}Ki"},
        "accessModes": random.choice([claim["spec"]["accessModes"]] * 4 + [["ReadWriteOnce"]]),
        "volumeMode": random.choice([claim["spec"].get("volumeMode", "Filesystem")] * 4 + ["Filesystem"]),
        "storageClassName": claim["spec"]["storageClassName"],
        **_source(random, name),
    }
    if random.random() < 0.6:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_term(random) for _ in range(random.randint(1, 2))]}}
    if ref is not None:
        spec["claimRef"] = {"namespace": "default", "name": ref}
    labels = {"tier": "fast"} if random.random() < 0.6 else {}
    if random.random() < 0.3:
        labels[random.choice([ZONE, OLD_ZONE])] = random.choice(["a", "b", "a__b", "b__c", "a____b"])
    if random.random() < 0.1:
        labels[REGION] = random.choice("rs")
    phase = "Bound" if ref is not None else random.choice(["Available"] * 6 + ["Released"])
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}}


def _source(random: Random, name: str) -> Object:
    match random.randrange(4):
        case 0:
            return {"awsElasticBlockStore": {"volumeID": random.choice(["aws://a/vol-1", "vol-2", f"vol-{name}"])}}
        case 1:
            return {"hostPath": {"path": "/x"}}
        case _:
            return {"csi": {"driver": random.choice(["d", "zonal"]), "volumeHandle": name}}


def _term(random: Random) -> Object:
    hosts = random.sample([f"n{i}" for i in range(NODES)], random.randint(1, 3))
    expressions: list[Object] = [
        {"key": HOST, "operator": random.choice(["In", "In", "NotIn"]), "values": hosts},
        {"key": ZONE, "operator": "In", "values": random.choice([["a"], ["b"], ["a", "b"]])},
        {"key": ZONE, "operator": random.choice(["Exists", "DoesNotExist"])},
    ]
    return {"matchExpressions": random.sample(expressions, random.choice([1, 1, 2]))}


def _attachment(random: Random, i: int, volume: str) -> Object:
    spec = {"attacher": random.choice(["d", "zonal"]), "nodeName": f"n{random.randrange(NODES)}"}
    return {"metadata": {"name": f"a{i}"}, "spec": {**spec, "source": {"persistentVolumeName": volume}}}


def _running(random: Random, i: int) -> Object:
    pod = _pod(random, i, kinds=random.randint(1, 3))
    del pod["spec"]["affinity"]
    return {"metadata": {"name": f"running-{i}"}, "spec": {**pod["spec"], "nodeName": f"n{random.randrange(NODES)}"}}


def _pod(random: Random, i: int, kinds: int = 0) -> Object:
    volumes = [_pod_volume(random) for _ in range(kinds or random.choice([1, 1, 2, 3]))]
    named = [{"name": f"v{n}", **each} for n, each in enumerate(volumes)]
    pod = a_pod(f"p{i}", volumes=named, affinity=NEAR_NOBODY)
    return {"metadata": {"name": f"p{i}"}, "spec": pod["spec"]}


def _pod_volume(random: Random) -> Object:
    match random.randrange(20):
        case 0:
            return {"iscsi": {"targetPortal": "1.2.3.4", "iqn": IQN, "lun": 0, "readOnly": random.random() < 0.5}}
        case 1:
            return {"awsElasticBlockStore": {"volumeID": random.choice(["vol-1", "vol-2"])}}
        case 2:
            monitors = random.sample(["m1", "m2", "m3"], 2)
            return {"rbd": {"monitors": monitors, "image": "i", "readOnly": random.random() < 0.5}}
        case 3:
            return {"gcePersistentDisk": {"pdName": "d", "readOnly": random.random() < 0.7}}
        case 4:
            return {"ephemeral": {"volumeClaimTemplate": {"spec": _template()}}}
        case _:
            return {"persistentVolumeClaim": {"claimName": f"c{random.randrange(CLAIMS + 2)}"}}


def _template() -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
