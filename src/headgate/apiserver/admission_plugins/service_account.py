"""ServiceAccount: every pod runs under a service account of its namespace, which must exist.

A new pod without a service account gets ``default``; a new pod without pull secrets gets those of its account. An
account with the annotation ``kubernetes.io/enforce-mountable-secrets`` restricts its pods to the secrets of the
account. Token volumes are not added: containers on simulated nodes read no files.

A controller creates the account ``default`` shortly after its namespace. A pod that is created before that waits, as on
kube-apiserver: ``apiserver/admission/admission_chain.py`` waits while ``needs_default_account`` is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.validation.pod.annotations import MIRROR
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.kube.field_errors import quote

PLUGIN: Final = "ServiceAccount"
DEFAULT: Final = "default"
RESOURCE: Final = "serviceaccounts"
_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def needs_default_account(attributes: AdmissionAttributes, new: Object, lister: ObjectLister) -> bool:
    """Whether a new pod needs the account ``default``, which does not exist yet, although its namespace does."""
    if (attributes.operation, str(attributes.resource), attributes.subresource) != ("CREATE", "pods", ""):
        return False
    namespace = attributes.namespace
    if _is_mirror(new) or ((new.get("spec") or {}).get("serviceAccountName") or DEFAULT) != DEFAULT:
        return False
    if lister.labels(RESOURCE, namespace, DEFAULT) is not None:
        return False
    found = lister.get("namespaces", "", namespace)
    return found is not None and "deletionTimestamp" not in found["metadata"]


def admit_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    if _is_mirror(new):
        return validate_new_pod(attributes, new, old, lister)
    spec = dict(new.get("spec") or {})
    spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or DEFAULT
    new["spec"] = spec
    account = _account(attributes, new, lister)
    if isinstance(account, api_errors.StatusError):
        return account
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]
    return validate_new_pod(attributes, new, old, lister)


def validate_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    """Checks again, because webhooks may have changed the pod."""
    if _is_mirror(new):
        problem = _mirror_problem(new)
        return attributes.forbidden(new, problem) if problem else None
    account = _account(attributes, new, lister)
    if isinstance(account, api_errors.StatusError):
        return account
    problem = _disallowed_secret(account, new["spec"]) if _is_enforced(account) else ""
    return attributes.forbidden(new, problem) if problem else None


def validate_ephemeral_containers(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    """The error if an ephemeral container refers to a secret that its service account does not allow."""
    account = _account(attributes, new, lister)
    if isinstance(account, api_errors.StatusError):
        return account
    if not _is_enforced(account):
        return None
    containers = new["spec"].get("ephemeralContainers") or ()
    problem = next(_disallowed_env_refs("ephemeral container", containers, account), "")
    # kube-apiserver returns a 500 without a reason here, not a 403.
    return api_errors.unknown_error(problem) if problem else None


def _is_mirror(pod: Object) -> bool:
    """Whether the pod mirrors a static pod of a kubelet."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _account(attributes: AdmissionAttributes, pod: Object, lister: ObjectLister) -> Object | api_errors.StatusError:
    namespace, name = attributes.namespace, (pod.get("spec") or {}).get("serviceAccountName", "")
    if not name:
        text = f"no service account specified for pod {namespace}/{pod['metadata'].get('name', '')}"
        return attributes.forbidden(pod, text)
    found = lister.get(RESOURCE, namespace, name)
    if found is not None:
        return found
    missing = f"serviceaccount {quote(name)} not found"
    return attributes.forbidden(pod, f"error looking up service account {namespace}/{name}: {missing}")


def _mirror_problem(pod: Object) -> str:
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if _refers_to_secrets(spec):
        return "a mirror pod may not reference secrets"
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


# Volume types that name a secret, and the field. (Each source of a projected volume may name one, too.)
_SECRET_FIELDS: Final = {
    "azureFile": "secretName",
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "csi": "nodePublishSecretRef",
    "flexVolume": "secretRef",
    "iscsi": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "secret": "secretName",
    "storageos": "secretRef",
}


def _refers_to_secrets(spec: Object) -> bool:
    containers = (each for field in _CONTAINERS for each in spec.get(field) or ())
    if any(secret for each in containers for secret, _ in _secret_env_refs(each)):
        return True
    if any(each.get("name") for each in spec.get("imagePullSecrets") or ()):
        return True
    return any(_names_secret(volume) for volume in spec.get("volumes") or ())


def _names_secret(volume: Object) -> bool:
    for kind, field in _SECRET_FIELDS.items():
        reference = (volume.get(kind) or {}).get(field)
        if reference.get("name") if isinstance(reference, dict) else reference:
            return True
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any((source.get("secret") or {}).get("name") for source in sources)


def _is_enforced(account: Object) -> bool:
    return (account["metadata"].get("annotations") or {}).get(_ENFORCE) in _TRUE


def _secret_env_refs(container: Object) -> Iterator[tuple[str, str]]:
    """Each secret in the environment of the container, and its location for messages."""
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            yield reference.get("name", ""), f"envVar {variable.get('name', '')}"
    for source in container.get("envFrom") or ():
        if source.get("secretRef") is not None:
            yield source["secretRef"].get("name", ""), "envFrom"


def _disallowed_env_refs(container_kind: str, containers: Any, account: Object) -> Iterator[str]:
    allowed = {each.get("name", "") for each in account.get("secrets") or ()}
    name = account["metadata"]["name"]
    for container in containers or ():
        for secret, location in _secret_env_refs(container):
            if secret not in allowed:
                yield (
                    f"{container_kind} {container.get('name', '')} with {location} referencing"
                    f' secret.secretName="{secret}" is not allowed because service account {name} does not'
                    " reference that secret"
                )


def _disallowed_secret(account: Object, spec: Object) -> str:
    """The first reference to a secret that is not in the account."""
    allowed, name = {each.get("name", "") for each in account.get("secrets") or ()}, account["metadata"]["name"]
    for volume in spec.get("volumes") or ():
        secret = volume.get("secret")
        if secret is not None and secret.get("secretName", "") not in allowed:
            return (
                f'volume with secret.secretName="{secret.get("secretName", "")}" is not allowed because service account'
                f" {name} does not reference that secret"
            )
    for container_kind, field in (("init container", "initContainers"), ("container", "containers")):
        for problem in _disallowed_env_refs(container_kind, spec.get(field), account):
            return problem
    allowed_pull_secrets = {each.get("name", "") for each in account.get("imagePullSecrets") or ()}
    for index, reference in enumerate(spec.get("imagePullSecrets") or ()):
        if reference.get("name", "") not in allowed_pull_secrets:
            return (
                f'imagePullSecrets[{index}].name="{reference.get("name", "")}" is not allowed because service account'
                f" {name} does not reference that imagePullSecret"
            )
    return ""
