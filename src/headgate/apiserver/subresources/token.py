"""``serviceaccounts/token``: issues a token for a service account, with an expiry, audiences, and an optional bound
object.

``apiserver/authn/service_account_tokens.py`` builds the token. Nothing is stored: a token is valid while the objects
that it names exist.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.api_errors import GroupResource
from headgate.apimachinery.validation.reviews import validate_token_request
from headgate.apiserver.admission import admission_chain
from headgate.apiserver.authn.service_account_tokens import BoundObject
from headgate.apiserver.kinds.rows.row import CREATE, builtin_kind
from headgate.apiserver.registry import request_bodies, responses, stored_objects
from headgate.apiserver.request import options
from headgate.apiserver.request.messages import Effect, ServerResponse
from headgate.apiserver.request_context import RequestContext
from headgate.apiserver.verbs import updating, writing
from headgate.kube import timestamps
from headgate.kube.field_errors import invalid
from headgate.store import Item

Object = dict[str, Any]

_KIND: Final = builtin_kind("authentication.k8s.io/v1", "TokenRequest", "tokenrequests", "Namespaced", verbs=CREATE)
_TOKEN_REQUEST: Final = GroupResource("authentication.k8s.io", "TokenRequest")
_RESOURCES: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
# Projected volumes request this lifetime. As in kube-apiserver, such tokens are valid for a year, because some clients
# do not reload them.
_EXTENDED_FROM_S: Final = 3607
_EXTENDED_S: Final = 365 * 24 * 3600


def create(call: RequestContext) -> Generator[Effect, Any, ServerResponse]:
    write_options = options.write_options(call.query, "CreateOptions")
    if isinstance(write_options, api_errors.StatusError):
        return responses.refused(call, write_options)
    request = request_bodies.decode_object(call, _KIND, write_options.field_validation)
    if isinstance(request, api_errors.StatusError):
        return responses.refused(call, request)
    issued = yield from _handle(call, request, write_options.field_manager)
    if isinstance(issued, api_errors.StatusError):
        return responses.refused(call, issued)
    return responses.respond(call, 201, stored_objects.wire_form(call.api, _KIND, issued))


def _handle(
    call: RequestContext, request: Object, field_manager: str
) -> Generator[Effect, Any, Object | api_errors.StatusError]:
    problem = writing.match_namespace(call.namespace, request["metadata"])
    if problem is not None:
        return problem
    request = updating.record_managed_fields(call, request, None, call.strategy.update, field_manager, _KIND)
    admitted = yield from admission_chain.admit_create(call, request)
    if isinstance(admitted, api_errors.StatusError):
        return admitted
    account = call.api.store.read("serviceaccounts", call.namespace, call.info.name)
    prepared = _prepare(call, admitted, account)
    if isinstance(prepared, api_errors.StatusError):
        return prepared
    problem = yield from admission_chain.validate_create(call, prepared)
    if problem is not None or account is None:
        return problem or api_errors.not_found(call.resource, call.info.name)
    bound = _bound_objects(call, (prepared["spec"]).get("boundObjectRef"))
    return bound if isinstance(bound, api_errors.StatusError) else _issue(call, prepared, account, bound)


def _prepare(call: RequestContext, request: Object, account: Item | None) -> Object | api_errors.StatusError:
    metadata, name = request["metadata"], call.info.name
    if metadata.get("name", name) != name:
        text = "must match the service account name if specified"
        return api_errors.invalid(_TOKEN_REQUEST, name, [invalid("metadata.name", metadata["name"], text)])
    if account is None:
        return api_errors.not_found(call.resource, name)
    uid = metadata.get("uid") or account.uid
    if uid != account.uid:
        text = f"the UID in the token request ({uid}) does not match the UID of the service account ({account.uid})"
        return api_errors.conflict(_TOKEN_REQUEST, name, text)
    spec = dict(request.get("spec") or {})
    accounts = call.api.accounts
    if not spec.get("audiences") and accounts is not None:
        spec["audiences"] = [accounts.issuer]
    metadata = {**metadata, "name": name, "uid": account.uid, "creationTimestamp": call.now}
    prepared = {**request, "metadata": metadata, "spec": spec}
    prepared.pop("status", None)
    problems = validate_token_request(prepared)
    return api_errors.invalid(_TOKEN_REQUEST, "", problems) if problems else prepared


def _bound_objects(call: RequestContext, ref: Object | None) -> list[BoundObject] | api_errors.StatusError:
    """The objects that the token is bound to; for a pod also its node."""
    if ref is None:
        return []
    kind, name = ref.get("kind", ""), ref.get("name", "")
    api_version = ref.get("apiVersion", "")
    group, _, version = api_version.rpartition("/") if api_version.count("/") < 2 else ("", "", "")
    resource = _RESOURCES.get(kind)
    if group or resource is None:
        return api_errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    item = call.api.store.read(resource, "" if kind == "Node" else call.namespace, name)
    if item is None:
        return api_errors.not_found(GroupResource("", resource), name)
    bound = [BoundObject(kind.lower(), name, item.uid)]
    if kind == "Pod":
        spec = stored_objects.decode(item.data).get("spec") or {}
        if spec.get("serviceAccountName", "") != call.info.name:
            text = f'cannot bind token for serviceaccount "{call.info.name}" to pod running with different'
            return api_errors.bad_request(f"{text} serviceaccount name.")
        if node_name := spec.get("nodeName"):
            node = call.api.store.read("nodes", "", node_name)
            bound.append(BoundObject("node", node_name, node.uid if node is not None else ""))
    uid = ref.get("uid")
    if uid and uid != item.uid:
        text = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record."
            " The object might have been deleted and then recreated"
        )
        return api_errors.conflict(GroupResource("", kind), name, text)
    return bound


def _issue(
    call: RequestContext, request: Object, account: Item, bound: list[BoundObject]
) -> Object | api_errors.StatusError:
    accounts = call.api.accounts
    if accounts is None:
        return api_errors.StatusError(501, "NotImplemented", "this API server has no key to sign tokens with")
    spec = request["spec"]
    seconds, audiences = spec["expirationSeconds"], spec["audiences"]
    extended = bound and bound[0].kind == "pod" and seconds == _EXTENDED_FROM_S and audiences == [accounts.issuer]
    now_s = int(call.moment.epoch_s)
    token = accounts.issue(
        account,
        bound,
        token_id=call.moment.new_uid(),
        now_s=now_s,
        lifetime_s=_EXTENDED_S if extended else seconds,
        warn_after_s=seconds if extended else None,
        audiences=audiences,
    )
    return {**request, "status": {"token": token, "expirationTimestamp": timestamps.format_time(now_s + seconds)}}
