"""An installation on the embedded server without sockets: steps are performed at once, and the test is the kubelet."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from embedded import TOKEN, Embedded
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.client.installer import DelayedRequest, install
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.install.access_reviews import REVIEWS
from headgate.install.applying import ApplyOutcome, apply_object
from headgate.install.manifests import install_objects, needed_definitions
from headgate.install.options import InstallOptions
from headgate.install.uninstall_steps import NO_RESPONSE, OmittedWrite, UninstallSteps
from headgate.install.uninstalling import UninstallPlan, uninstall
from headgate.quota.kinds.definitions import adapted

R = TypeVar("R")
Object = dict[str, Any]
NAMESPACE = "headgate-system"
STRANGER = "stranger-token"
CORE = ("namespaces", "pods", "services", "serviceaccounts", "secrets", "configmaps")
GROUPS: dict[str, tuple[str, ...]] = {
    "apps": ("*",),
    "policy": ("*",),
    "batch": ("*",),
    "networking.k8s.io": ("*",),
    "coordination.k8s.io": ("*",),
    "rbac.authorization.k8s.io": ("*",),
    "apiextensions.k8s.io": ("*",),
    "admissionregistration.k8s.io": ("*",),
    "scheduling.volcano.sh": ("*",),
    "kueue.x-k8s.io": ("*",),
}
"""What an installation uses, without the core group and monitoring.coreos.com, which the server does not have."""


class Installation:
    """`sent`: the writes, in their order: method and path. `before_request` is called before each request. `headers`:
    of all responses. `token`: of the user who types; `STRANGER` has no rights. `protected`: paths of objects that no
    user may patch, because of a policy. `deployment_finalizers`: those that a deleted Deployment
    keeps."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.server = Embedded(users={STRANGER: UserInfo("stranger", ("system:authenticated",))})
        self.server.post("/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
        self.sent: list[str] = []
        self.headers: dict[str, str] = {}
        self.protected: set[str] = set()
        self.deployment_finalizers: list[str] = []
        self.before_request: Callable[[HTTPRequest], None] = lambda request: None

    def install(self, options: InstallOptions | None = None, namespace: str = NAMESPACE) -> list[ApplyOutcome]:
        chosen = options or InstallOptions()
        for definition in needed_definitions(chosen):
            self.perform(install(definition, adapted))
        return [self.perform(apply_object(each)) for each in install_objects(chosen, namespace)]

    def uninstall(self, namespace: str = NAMESPACE, **plan: bool) -> list[str]:
        """The lines that the command prints."""
        lines: list[str] = []
        self.perform_steps(uninstall(UninstallPlan(namespace, **plan)), lines.append)
        return lines

    def perform_steps(self, steps: UninstallSteps[R], say: Callable[[str], None]) -> R:
        try:
            step = next(steps)
            while True:
                if isinstance(step, DelayedRequest):
                    step = steps.send(self.request(step.request))
                else:
                    say(f"{step.line} (dry run)" if isinstance(step, OmittedWrite) else step)
                    step = steps.send(NO_RESPONSE)
        except StopIteration as done:
            result: R = done.value
            return result

    def perform(self, steps: Generator[DelayedRequest, HTTPResponse, R]) -> R:
        try:
            step = next(steps)
            while True:
                step = steps.send(self.request(step.request))
        except StopIteration as done:
            result: R = done.value
            return result

    def request(self, request: HTTPRequest) -> HTTPResponse:
        self.before_request(request)
        if request.method != "GET" and request.path != REVIEWS and "dryRun=All" not in request.query:
            self.sent.append(f"{request.method} {request.path}")
        if request.method == "PATCH" and request.path in self.protected:
            return HTTPResponse(403, self.headers, b'{"kind": "Status", "message": "denied by a policy"}')
        headers = {"authorization": f"Bearer {self.token}", "user-agent": "test", **request.headers}
        answer = self.server.send(ServerRequest(request.method, request.path, request.query, headers, request.body))
        assert isinstance(answer, ServerResponse)
        self._finish_deletion(request)
        return HTTPResponse(answer.status, self.headers, answer.body)

    def _finish_deletion(self, request: HTTPRequest) -> None:
        """What controllers do when a Deployment or a namespace is deleted."""
        if request.method != "DELETE":
            return
        if request.path == f"/api/v1/namespaces/{NAMESPACE}":
            found = self.server.get(request.path).body
            self.server.put(f"{request.path}/finalize", {**found, "spec": {"finalizers": []}})
        elif "/deployments/" in request.path:
            self.server.patch(request.path, {"metadata": {"finalizers": self.deployment_finalizers or None}})

    def allow(self, *verbs: str, of: dict[str, tuple[str, ...]] | None = None) -> None:
        """What the stranger may do from now on with objects of these groups and resources, by default with all, and to
        ask for own rights."""
        roles = "/apis/rbac.authorization.k8s.io/v1"
        rules = [
            *(
                {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
                for group, resources in (of or {"*": ("*",)}).items()
            ),
            {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"], "verbs": ["create"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ]
        self.create(f"{roles}/clusterroles", {"metadata": {"name": "stranger"}, "rules": rules})
        binding = {
            "metadata": {"name": "stranger"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "stranger"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "stranger"}],
        }
        self.create(f"{roles}/clusterrolebindings", binding)

    def get(self, path: str) -> Any:
        """The object; None if there is none."""
        found = self.server.get(path)
        return found.body if found.status == 200 else None

    def create(self, path: str, body: Object) -> Any:
        made = self.server.post(path, body)
        assert made.status == 201, made
        return made.body
