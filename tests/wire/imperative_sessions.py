"""kubectl sessions with imperative commands: kubectl sends these bodies as protobuf."""

from __future__ import annotations

from harness.kubectl_session import Scripted, k

YAML = "-o yaml"


def without_user(output: str) -> str:
    """The servers' administrators have names of their own."""
    return "\n".join(line for line in output.splitlines() if not line.startswith(("Username", "UID")))


def shape_of_token(output: str) -> str:
    return " ".join(part[:3] for part in output.split(".")[:2])


IMPERATIVE: dict[str, list[Scripted]] = {
    "created by name": [
        k("create configmap c --from-literal=a=1 --from-literal=b=two"),
        k(f"get configmap c {YAML}"),
        k("create configmap c --from-literal=a=1"),
        k(f"create configmap d --from-literal=a=1 --dry-run=server {YAML}"),
        k("create secret generic s --from-literal=password=x"),
        k("create secret docker-registry r --docker-username=u --docker-password=p --docker-server=example.com"),
        k("create secret generic odd --type=kubernetes.io/tls --from-literal=a=b"),
        k(f"get secrets {YAML}"),
        k("create serviceaccount robot"),
        k(f"get serviceaccount robot {YAML}"),
        k("create namespace {ns}-more"),
        k("create namespace {ns}-more"),
        k("create namespace Bad_Name"),
        k("get namespace {ns}-more -o jsonpath='{.metadata.labels}'"),
        k("delete namespace {ns}-more --wait=false"),
    ],
    "workloads created by name": [
        k("create deployment d --image=nginx --replicas=2 --port=80"),
        k(f"get deployment d {YAML}"),
        k("create deployment e --image=a --image=b:1"),
        k("create job j --image=busybox -- sh -c 'exit 0'"),
        k(f"get job j {YAML}"),
        k("create cronjob c --image=busybox --schedule='*/5 * * * *' --restart=OnFailure -- date"),
        k(f"get cronjob c {YAML}"),
        k("create cronjob odd --image=busybox --schedule='not a schedule'"),
        k("create job from-c --from=cronjob/c"),
        k("get job from-c -o jsonpath='{.metadata.ownerReferences[0].name} {.metadata.annotations}'"),
        k("scale deployment d --replicas=5"),
        k("scale deployment d --replicas=1 --current-replicas=5"),
        k("scale deployment d --replicas=1 --current-replicas=5"),
        k("autoscale deployment d --min=1 --max=3 --cpu=50%"),
        k(f"get hpa d {YAML}"),
        k("rollout restart deployment d"),
        k("rollout pause deployment d"),
        k("rollout resume deployment d"),
        k("set image deployment/d nginx=nginx:2"),
        k("set resources deployment/d --limits=cpu=1,memory=64Mi"),
        k("set env deployment/d A=1"),
        k("get deployments,jobs,cronjobs,hpa -o name"),
    ],
    "pods run by name": [
        k("run p --image=nginx --labels=app=x --port=80 --env=A=1"),
        k(f"get pod p {YAML}"),
        k("run p --image=nginx"),
        k("run 'Bad Name' --image=nginx"),
        k("run q --image=nginx --expose --port=8080"),
        k("get service q -o jsonpath='{.spec.ports} {.spec.selector}'"),
        k('run gated --image=nginx --overrides=\'{"spec":{"schedulingGates":[{"name":"a.example/b"}]}}\''),
        k("get pods"),
        k("expose pod p --name=exposed --port=80 --target-port=http"),
        k("get service exposed -o jsonpath='{.spec.ports} {.spec.selector}'"),
        k("delete pod p q gated --now --wait=false"),
    ],
    "network and storage created by name": [
        k("create service clusterip a --tcp=80:8080"),
        k("create service nodeport b --tcp=443:https"),
        k("create service loadbalancer c --tcp=80"),
        k("create service externalname d --external-name=example.com"),
        k("create service clusterip headless --clusterip=None"),
        k("get services -o jsonpath='{range .items[*]}{.metadata.name} {.spec.type} {.spec.selector}{\"\\n\"}{end}'"),
        k("create ingress i --rule='example.com/path*=a:80,tls=s'"),
        k(f"get ingress i {YAML}"),
        k("create poddisruptionbudget b --selector=app=x --min-available=50%"),
        k("create poddisruptionbudget n --selector=app=x --max-unavailable=1"),
        k(f"get poddisruptionbudgets {YAML}"),
        k("create quota q --hard=cpu=1,memory=1Gi,pods=2 --scopes=BestEffort"),
        k("create quota r --hard=cpu=1,memory=1Gi,pods=2"),
        k("get quota r -o jsonpath='{.spec}'"),
        k("create priorityclass {ns}-high --value=1000 --description=x --preemption-policy=Never"),
        k("get priorityclass {ns}-high"),
        k("delete priorityclass {ns}-high"),
    ],
    "access created by name": [
        k("create role reader --verb=get,list,watch --resource=pods,deployments.apps --resource-name=a"),
        k(f"get role reader {YAML}"),
        k("create role odd --verb=get --resource=odds"),
        k("create rolebinding b --role=reader --user=jane --group=dev --serviceaccount={ns}:robot"),
        k(f"get rolebinding b {YAML}"),
        k("create clusterrole {ns}-role --verb=get --resource=nodes"),
        k("create clusterrole {ns}-urls --verb=get --non-resource-url=/healthz,/logs/*"),
        k("create clusterrole {ns}-sum --aggregation-rule=a=b"),
        k("create clusterrolebinding {ns}-bind --clusterrole={ns}-role --user=jane"),
        k(f"get clusterrole {{ns}}-role {YAML}"),
        k("set subject rolebinding b --user=joe"),
        k("create serviceaccount robot"),
        k("create token robot", only=shape_of_token),
        k("create token robot --duration=2h --audience=vault -o jsonpath='{.kind} {.spec}'"),
        k("create token nobody"),
        k("auth can-i get pods --as=jane"),
        k("auth can-i list pods --as=system:serviceaccount:{ns}:robot"),
        k("auth can-i --list --as=jane"),
        k("auth whoami --as=jane --as-group=dev"),
        k("auth whoami", only=without_user),
        k("auth whoami -o jsonpath='{.kind} {.status.userInfo.groups}'"),
        k("auth can-i create pods"),
        k("auth can-i '*' '*' --all-namespaces"),
        k("auth can-i get /healthz"),
        k("auth can-i get odds"),
        k("auth can-i get pods/log --quiet"),
        k("delete clusterrole {ns}-role {ns}-urls {ns}-sum"),
        k("delete clusterrolebinding {ns}-bind"),
    ],
    "nodes and evictions by name": [
        k("create -f -", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "imperative-node"}}),
        k('run p --image=nginx --overrides=\'{"spec":{"nodeName":"imperative-node"}}\''),
        k("cordon imperative-node"),
        k("taint node imperative-node a=b:NoSchedule"),
        k("drain imperative-node --force --ignore-daemonsets --dry-run=server"),
        k("uncordon imperative-node"),
        k("delete pod p --force --grace-period=0"),
        k("delete node imperative-node"),
    ],
}
