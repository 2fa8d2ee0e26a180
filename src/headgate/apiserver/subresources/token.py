"""``serviceaccounts/token``: a token for a service account, for some time, some audiences, and perhaps one object.

The token is made by ``access/accounts.py``. Nothing is stored: a token is good as long as what it names is there.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.apiserver import admission, bodies, options, records, updating, views, writing
from headgate.apiserver.access.accounts import Bound
from headgate.apiserver.call import Call
from headgate.apiserver.kinds.rows.row import CREATE, row
from headgate.apiserver.messages import Effect, Response
from headgate.kube import status, timestamps
from headgate.kube.errors import invalid
from headgate.kube.status import GroupResource
from headgate.kube.validation.token_request import validate_token_request
from headgate.store import Item

Object = dict[str, Any]

_KIND: Final = row("authentication.k8s.io/v1", "TokenRequest", "tokenrequests", "Namespaced", verbs=CREATE)
_NAMED: Final = GroupResource("authentication.k8s.io", "TokenRequest")
_RESOURCES: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
# Projected volumes ask for this lifetime; such tokens live on for a year, for clients that do not read them again.
_EXTENDED_FROM_S: Final = 3607
_EXTENDED_S: Final = 365 * 24 * 3600


def create(call: Call) -> Generator[Effect, Any, Response]:
    wanted = options.write_options(call.query, "CreateOptions")
    if isinstance(wanted, status.ApiError):
        return views.refused(call, wanted)
    request = bodies.decode_object(call, _KIND, wanted.field_validation)
    if isinstance(request, status.ApiError):
        return views.refused(call, request)
    answer = yield from _answer(call, request, wanted.field_manager)
    if isinstance(answer, status.ApiError):
        return views.refused(call, answer)
    return views.answer(call, 201, records.tidy(call.api, _KIND, answer))


def _answer(call: Call, request: Object, field_manager: str) -> Generator[Effect, Any, Object | status.ApiError]:
    problem = writing.match_namespace(call.namespace, request["metadata"])
    if problem is not None:
        return problem
    request = updating.track(call, request, None, call.strategy.update, field_manager, _KIND)
    admitted = yield from admission.admit_create(call, request)
    if isinstance(admitted, status.ApiError):
        return admitted
    account = call.api.store.read("serviceaccounts", call.namespace, call.info.name)
    prepared = _prepare(call, admitted, account)
    if isinstance(prepared, status.ApiError):
        return prepared
    problem = yield from admission.validate_create(call, prepared)
    if problem is not None or account is None:
        return problem or status.not_found(call.resource, call.info.name)
    bound = _bound(call, (prepared["spec"]).get("boundObjectRef"))
    return bound if isinstance(bound, status.ApiError) else _issued(call, prepared, account, bound)


def _prepare(call: Call, request: Object, account: Item | None) -> Object | status.ApiError:
    metadata, name = request["metadata"], call.info.name
    if metadata.get("name", name) != name:
        text = "must match the service account name if specified"
        return status.invalid(_NAMED, name, [invalid("metadata.name", metadata["name"], text)])
    if account is None:
        return status.not_found(call.resource, name)
    uid = metadata.get("uid") or account.uid
    if uid != account.uid:
        text = f"the UID in the token request ({uid}) does not match the UID of the service account ({account.uid})"
        return status.conflict(_NAMED, name, text)
    spec = dict(request.get("spec") or {})
    accounts = call.api.accounts
    if not spec.get("audiences") and accounts is not None:
        spec["audiences"] = [accounts.issuer]
    metadata = {**metadata, "name": name, "uid": account.uid, "creationTimestamp": call.now}
    prepared = {**request, "metadata": metadata, "spec": spec}
    prepared.pop("status", None)
    problems = validate_token_request(prepared)
    return status.invalid(_NAMED, "", problems) if problems else prepared


def _bound(call: Call, ref: Object | None) -> list[Bound] | status.ApiError:
    """The object that the token shall live and die with; a pod brings its node along."""
    if ref is None:
        return []
    kind, name = ref.get("kind", ""), ref.get("name", "")
    api_version = ref.get("apiVersion", "")
    group, _, version = api_version.rpartition("/") if api_version.count("/") < 2 else ("", "", "")
    resource = _RESOURCES.get(kind)
    if group or resource is None:
        return status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    item = call.api.store.read(resource, "" if kind == "Node" else call.namespace, name)
    if item is None:
        return status.not_found(GroupResource("", resource), name)
    bound = [Bound(kind.lower(), name, item.uid)]
    if kind == "Pod":
        spec = records.decode(item.data).get("spec") or {}
        if spec.get("serviceAccountName", "") != call.info.name:
            text = f'cannot bind token for serviceaccount "{call.info.name}" to pod running with different'
            return status.bad_request(f"{text} serviceaccount name.")
        if node_name := spec.get("nodeName"):
            node = call.api.store.read("nodes", "", node_name)
            bound.append(Bound("node", node_name, node.uid if node is not None else ""))
    wanted = ref.get("uid")
    if wanted and wanted != item.uid:
        text = (
            f"the UID in the bound object reference ({wanted}) does not match the UID in record."
            " The object might have been deleted and then recreated"
        )
        return status.conflict(GroupResource("", kind), name, text)
    return bound


def _issued(call: Call, request: Object, account: Item, bound: list[Bound]) -> Object | status.ApiError:
    accounts = call.api.accounts
    if accounts is None:
        return status.ApiError(501, "NotImplemented", "this API server has no key to sign tokens with")
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
