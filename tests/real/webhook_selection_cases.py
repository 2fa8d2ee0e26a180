"""Cases of admission webhooks: which webhooks a request selects. Run by ``test_http_webhooks.py``."""

from __future__ import annotations

from typing import Any

from harness.objects import (
    APPS,
    CONFIG_MAPS,
    CORE,
    DEPLOYMENTS,
    NODES,
    PODS,
    binding,
    config_map,
    deployment,
    node,
    pod,
)
from harness.request_cases import Edited, apply, delete, get, patch, post, put
from real.webhook_cases import (
    MUTATING,
    NAMESPACES,
    VALIDATING,
    add,
    allows,
    by_labels,
    configured,
    denies,
    hook,
    hook_case,
    labelled,
    patches,
    rule,
)

MAPS = rule("configmaps")
EVERYWHERE: dict[str, Any] = {}
SCALERS = "/apis/autoscaling/v{}/namespaces/{{ns}}/horizontalpodautoscalers"
LABEL = add("/metadata/labels", {"hooked": "yes"})
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


def scale(replicas: int) -> dict[str, Any]:
    metadata = {"name": "d", "namespace": "{ns}"}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}


def scaler(version: int) -> dict[str, Any]:
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}
    return {
        "apiVersion": f"autoscaling/v{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": spec,
    }


def event(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
        "reason": "r",
        "message": "m",
    }


ASKED = [
    hook_case(
        "every write of a map",
        {"/see": allows},
        configured(VALIDATING, hook("/see", MAPS)),
        post(CONFIG_MAPS, config_map("a")).named("a"),
        put(f"{CONFIG_MAPS}/a", Edited("a", {"data": {"k": "w"}})),
        patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}}),
        patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}}),
        patch(f"{CONFIG_MAPS}/a?dryRun=All&fieldManager=me&fieldValidation=Strict", {"data": {"x": "z"}}),
        apply(f"{CONFIG_MAPS}/b", config_map("b")),
        apply(f"{CONFIG_MAPS}/b", config_map("b", {"k": "v2"}), force=True),
        delete(f"{CONFIG_MAPS}/a"),
        delete(f"{CONFIG_MAPS}?labelSelector=none=here"),
        delete(CONFIG_MAPS),
    ),
    hook_case(
        "writes that come to nothing are asked about all the same",
        {"/m": allows, "/v": allows},
        post(CONFIG_MAPS, config_map("a")).named("a"),
        put(f"{CONFIG_MAPS}/a", config_map("a", {"k": "new"})),
        configured(MUTATING, hook("/m", MAPS)),
        configured(VALIDATING, hook("/v", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
        put(f"{CONFIG_MAPS}/a", Edited("a", {"data": {"k": "late"}})),
        put(f"{CONFIG_MAPS}/none", config_map("none")),
        patch(f"{CONFIG_MAPS}/none", {"data": {"x": "y"}}),
        delete(f"{CONFIG_MAPS}/none"),
        post(CONFIG_MAPS, config_map("Not_a_name")),
        delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": "another"}}),
    ),
    hook_case(
        "options of a delete",
        {"/see": allows},
        configured(VALIDATING, hook("/see", MAPS)),
        post(CONFIG_MAPS, config_map("a")).named("a"),
        delete(f"{CONFIG_MAPS}/a?dryRun=All&propagationPolicy=Foreground"),
        delete(f"{CONFIG_MAPS}/a", {"dryRun": ["All"], "gracePeriodSeconds": 7, "orphanDependents": False}),
        delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": "${a:/metadata/uid}"}, "gracePeriodSeconds": -1}),
    ),
    hook_case(
        "a pod as both kinds of webhooks see it",
        {"/m": allows, "/v": allows},
        configured(MUTATING, hook("/m", rule("pods", "pods/*"))),
        configured(VALIDATING, hook("/v", rule("*/*"))),
        post(PODS, pod("p")),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
    ),
    hook_case(
        "a pod on a node is deleted in steps",
        {"/v": allows},
        configured(VALIDATING, hook("/v", rule("pods"))),
        post(PODS, pod("p", nodeName="n")),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p?gracePeriodSeconds=60"),
        delete(f"{PODS}/p?gracePeriodSeconds=5"),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
    ),
    hook_case(
        "finalizers hold an object that may be deleted",
        {"/v": allows},
        configured(VALIDATING, hook("/v", MAPS)),
        post(CONFIG_MAPS, {**config_map("a"), "metadata": {"name": "a", "finalizers": ["example.com/f"]}}),
        delete(f"{CONFIG_MAPS}/a"),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CONFIG_MAPS}/a"),
    ),
    hook_case(
        "subresources of a deployment",
        {"/m": allows, "/v": allows},
        configured(MUTATING, hook("/m", rule("deployments/*", group="apps"))),
        configured(VALIDATING, hook("/v", rule("deployments/scale", "*/status", group="apps"))),
        post(DEPLOYMENTS, deployment("d")),
        put(f"{DEPLOYMENTS}/d/scale", scale(2)),
        patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}),
        patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -3}}),
        patch(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 1}}),
        get(f"{DEPLOYMENTS}/d"),
    ),
    hook_case(
        "a scale is changed on its way",
        {"/m": patches(add("/spec/replicas", 7))},
        configured(MUTATING, hook("/m", rule("deployments/scale", group="apps"))),
        post(DEPLOYMENTS, deployment("d")),
        put(f"{DEPLOYMENTS}/d/scale", scale(2)),
        get(f"{DEPLOYMENTS}/d"),
    ),
    hook_case(
        "binding and eviction",
        {"/m": allows, "/v": allows},
        configured(MUTATING, hook("/m", rule("pods/*"))),
        configured(VALIDATING, hook("/v", rule("pods/*", "pods", operations=("CREATE", "DELETE")))),
        post(PODS, pod("p")),
        post(f"{PODS}/p/binding", binding("p")),
        post(f"{PODS}/p/eviction", EVICTION),
    ),
    hook_case(
        "a binding is refused, an eviction too",
        {"/no": denies(message="not this one")},
        post(PODS, pod("p")),
        configured(VALIDATING, hook("/no", rule("pods/binding", "pods/eviction"))),
        post(f"{PODS}/p/binding", binding("p")),
        post(f"{PODS}/p/eviction", EVICTION),
        get(f"{PODS}/p"),
    ),
    hook_case(
        "the status and the size of a pod",
        {"/v": allows},
        configured(VALIDATING, hook("/v", rule("pods/status", "pods/resize", "pods/ephemeralcontainers"))),
        post(PODS, pod("p")),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
        patch(
            f"{PODS}/p/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
            "strategic",
        ),
        patch(f"{PODS}/p", {"metadata": {"labels": {"not": "asked"}}}),
    ),
    hook_case(
        "a name that the server makes",
        {"/m": allows, "/v": allows},
        configured(MUTATING, hook("/m", MAPS)),
        configured(VALIDATING, hook("/v", MAPS)),
        post(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}),
    ),
    hook_case(
        "older reviews",
        {"/old": allows, "/first": allows, "/new": allows},
        configured(
            VALIDATING,
            hook("/old", MAPS, admissionReviewVersions=["v1beta1"]),
            hook("/first", MAPS, admissionReviewVersions=["v1beta1", "v1"]),
            hook("/new", MAPS, admissionReviewVersions=["v7", "v1"]),
        ),
        post(CONFIG_MAPS, config_map("a")),
        parallel=True,
    ),
]
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "SelfSubjectReview",
    "metadata": {"labels": {"case": "{ns}"}},
}
ASKED += [
    hook_case(
        "a review is a write too",
        {"/m": allows, "/v": denies(message="do not ask")},
        configured(
            MUTATING,
            hook(
                "/m",
                rule("selfsubjectreviews", group="authentication.k8s.io"),
                objectSelector={"matchLabels": {"case": "{ns}"}},
            ),
        ),
        post(REVIEWS, REVIEW),
        configured(
            VALIDATING,
            hook("/v", rule("*", group="authentication.k8s.io"), objectSelector={"matchLabels": {"case": "{ns}"}}),
        ),
        post(REVIEWS, REVIEW),
    ),
    hook_case(
        "an eviction with options, and a token",
        {"/v": allows},
        configured(VALIDATING, hook("/v", rule("pods/eviction", "serviceaccounts/token"))),
        post(PODS, pod("p")),
        post(f"{PODS}/p/eviction?dryRun=All", {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 3}}),
        post(f"{CORE}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}),
        post(
            f"{CORE}/serviceaccounts/s/token?dryRun=All",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [""]}},
        ),
    ),
]
SELECTED = [
    hook_case(
        "an object selector looks at both states",
        {"/see": allows},
        configured(VALIDATING, hook("/see", MAPS, objectSelector={"matchLabels": {"pick": "me"}})),
        post(CONFIG_MAPS, config_map("a")),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"pick": "me"}}}),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"pick": "not"}}}),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"pick": "never"}}}),
        post(CONFIG_MAPS, config_map("b", labels={"pick": "me"})),
        delete(f"{CONFIG_MAPS}/b"),
        delete(f"{CONFIG_MAPS}/a"),
    ),
    hook_case(
        "a mutation makes the next webhook match",
        {"/label": patches(LABEL), "/after": allows, "/before": allows},
        configured(
            MUTATING,
            hook("/before", MAPS, objectSelector={"matchLabels": {"hooked": "yes"}}),
            hook("/label", MAPS),
            hook("/after", MAPS, objectSelector={"matchLabels": {"hooked": "yes"}}),
        ),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "another namespace is left alone",
        {"/see": allows},
        configured(
            VALIDATING,
            hook("/see", MAPS, namespaceSelector={"matchLabels": {"team": "{ns}"}}),
            by_labels({"team": "{ns}"}),
        ),
        post(CONFIG_MAPS, config_map("a")),
        *labelled({"team": "{ns}"}),
        post(CONFIG_MAPS, config_map("b")),
    ),
    hook_case(
        "namespaces are selected by their own labels",
        {"/see": allows},
        configured(
            VALIDATING,
            hook("/see", rule("namespaces", "namespaces/*"), namespaceSelector={"matchLabels": {"team": "{ns}"}}),
            by_labels({"team": "{ns}"}),
        ),
        post(NAMESPACES, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "{ns}-x"}}),
        *labelled({"team": "{ns}"}, "{ns}-x"),
        patch(f"{NAMESPACES}/{{ns}}-x/status", {"status": {"phase": "Active"}}),
        patch(f"{NAMESPACES}/{{ns}}-x", {"metadata": {"annotations": {"a": "b"}}}),
        delete(f"{NAMESPACES}/{{ns}}-x"),
    ),
    hook_case(
        "the scope of a rule",
        {"/cluster": allows, "/inside": allows, "/both": allows},
        configured(
            VALIDATING,
            *(
                hook(
                    path,
                    rule("nodes", "namespaces", "configmaps", scope=scope),
                    namespaceSelector=EVERYWHERE,
                    objectSelector={"matchLabels": {"case": "{ns}"}},
                )
                for path, scope in (("/cluster", "Cluster"), ("/inside", "Namespaced"), ("/both", "*"))
            ),
        ),
        post(NODES, node("{ns}", labels={"case": "{ns}"})),
        post(CONFIG_MAPS, config_map("a", labels={"case": "{ns}"})),
        patch("/api/v1/namespaces/{ns}", {"metadata": {"labels": {"case": "{ns}"}}}),
        parallel=True,
    ),
    hook_case(
        "rules that name versions and groups",
        {"/a": allows, "/b": allows, "/c": allows},
        configured(
            VALIDATING,
            hook("/a", {**rule("*", group="*"), "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}),
            hook("/b", {**rule("deployments", group="extensions")}, {**rule("deployments"), "apiGroups": ["", "apps"]}),
            hook("/c", {**rule("deployments", group="apps"), "apiVersions": ["v1beta1", "v2"]}),
        ),
        post(DEPLOYMENTS, deployment("d")),
        patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}),
        delete(f"{APPS}/deployments/d"),
        parallel=True,
    ),
    hook_case(
        "an autoscaler in the version that a rule names",
        {"/exact": allows, "/equivalent": allows},
        configured(
            VALIDATING,
            hook(
                "/exact",
                {**rule("horizontalpodautoscalers", group="autoscaling"), "apiVersions": ["v1"]},
                matchPolicy="Exact",
            ),
            hook("/equivalent", {**rule("horizontalpodautoscalers", group="autoscaling"), "apiVersions": ["v1"]}),
        ),
        post(SCALERS.format(2), scaler(2)),
        delete(f"{SCALERS.format(1)}/a"),
        parallel=True,
    ),
    hook_case(
        "an autoscaler is patched in another version",
        {"/m": patches(add("/spec/targetCPUUtilizationPercentage", 44))},
        configured(
            MUTATING, hook("/m", {**rule("horizontalpodautoscalers", group="autoscaling"), "apiVersions": ["v1"]})
        ),
        post(SCALERS.format(2), scaler(2)),
        get(f"{SCALERS.format(1)}/a"),
    ),
    hook_case(
        "an event of the other group",
        {"/see": allows},
        configured(VALIDATING, hook("/see", rule("events", group="events.k8s.io"))),
        post(f"{CORE}/events", event("e")),
    ),
]
