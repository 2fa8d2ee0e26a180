"""Performs the actions of viewers, with the token of each viewer, so that the API server decides and names the viewer.

A preview sends the same requests as a dry run: admission, GatePolicies and rights answer as for the action itself. The
views add what the engines say will happen. Each action is logged with its user and its result.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from headgate.capacity.names import QUEUES
from headgate.client.gate_lifting import GateLiftOutcome
from headgate.client.gated_pods import GatedPod, gated_pods
from headgate.client.pager import ListRefused, refusal_message
from headgate.client.permissions import refusal_text
from headgate.dashboard.actions import KINDS, Action, ActionAnswer
from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.viewers import Viewer
from headgate.dashboard.redaction import redact
from headgate.dashboard.rights import ViewerRights, visible
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport, Unreachable, encode_query
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.object_meta import controller_of, group_kind_of
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.serializer.wire_json import WireDecoder
from headgate.quota.api.activation import ActivationEvent
from headgate.quota.kinds.names import CLUSTER_QUEUES, PRIORITY_CLASSES
from headgate.runtime.actions.gate_lifts import lift_gate
from headgate.runtime.actions.job_labels import activation_request, priority_request, why_impossible
from headgate.runtime.actions.queue_states import queue_state_request
from headgate.views.action_effects import Effect, lift_effects, priority_effects, queue_effects, workload_effects
from headgate.views.rows import QueueRow, QuotaRow

Object = dict[str, Any]
OpenAs = Callable[[str], Transport]
"""Opens a transport with the credentials of a bearer token; with those of the operator for an empty one."""

_log: Final = logging.getLogger(__name__)
_decode: Final = WireDecoder(dict[str, Any]).decode
_MAX_SHOWN: Final = 20


class ActionRunner:
    def __init__(self, feed: ViewsFeed, open_as: OpenAs) -> None:
        self._feed: Final = feed
        self._open_as: Final = open_as

    async def run(
        self, action: Action, viewer: Viewer, token: str, rights: ViewerRights, *, dry_run: bool
    ) -> ActionAnswer:
        """``dry_run``: the preview."""
        async with self._transport(viewer, token) as transport:
            try:
                answer = await _Run(self._feed, transport, rights, action, dry_run).answer()
            except Unreachable as problem:
                answer = ActionAnswer(action.title, (), (f"the API server cannot be reached: {problem}",))
        if not dry_run:
            result = "; ".join(answer.problems) or f"done, {answer.affected} changed"
            _log.warning("dashboard: %r by %r: %s", action.title, viewer.name, result)
        return answer

    @asynccontextmanager
    async def _transport(self, viewer: Viewer, token: str) -> AsyncIterator[Transport]:
        transport = self._open_as("" if viewer.user is None else token)
        try:
            yield transport
        finally:
            await transport.close()


class _Refused(Exception):
    """Why the action cannot be done; caught in this module."""


class _Run:
    """One action of one viewer."""

    def __init__(
        self, feed: ViewsFeed, transport: Transport, rights: ViewerRights, action: Action, dry_run: bool
    ) -> None:
        self._feed: Final = feed
        self._transport: Final = transport
        self._rights: Final = rights
        self._action: Final = action
        self._dry_run: Final = dry_run

    async def answer(self) -> ActionAnswer:
        action = self._action
        try:
            if action.action == "lift-gate":
                return await self._lift()
            if action.kind == "Workload":
                return await self._change_job()
            return await self._change_queue()
        except _Refused as problem:
            return ActionAnswer(action.title, (), (str(problem),))

    # -- gates -----------------------------------------------------------------------------------------------------

    async def _lift(self) -> ActionAnswer:
        action, gate = self._action, self._action.value
        if action.kind == "Pod":
            obj = await self._read(PODS, action.namespace, action.name)
            metadata = obj["metadata"]
            pods = [GatedPod(action.namespace, action.name, metadata["uid"], "", tuple(gate_names(obj)))]
        else:
            found = await self._perform_list(action.namespace)
            pods = [pod for pod in found if gate in pod.gates]
        if not any(gate in pod.gates for pod in pods):
            raise _Refused(f"no pod has the gate {gate} any more")
        results = await lift_gate(self._transport, gate, pods, dry_run=self._dry_run)
        lifted = [each.pod for each in results if each.outcome is GateLiftOutcome.LIFTED]
        failed = [
            f"pod {each.pod.key}: {each.outcome.value}: {each.detail}"
            for each in results
            if each.outcome is not GateLiftOutcome.LIFTED
        ]
        effects = self._shown(self._lift_effects(lifted)) if self._dry_run else ()
        uid = pods[0].uid if action.kind == "Pod" else ""
        return ActionAnswer(action.title, effects, _first(failed), uid, len(lifted))

    def _lift_effects(self, lifted: list[GatedPod]) -> Iterable[Effect]:
        views, gate = self._feed.views, self._action.value
        if len(lifted) > 1:
            yield Effect(f"the gate {gate} is removed from {len(lifted)} pods; for the first of them:")
        for pod in lifted[:1]:
            viewed = views.pod(pod.namespace, pod.name)
            if viewed is not None and viewed.uid == pod.uid:
                yield from lift_effects(views, viewed, gate)

    async def _perform_list(self, namespace: str) -> list[GatedPod]:
        steps = gated_pods(namespace, "")
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._transport.request(request))
        except StopIteration as done:
            if isinstance(done.value, ListRefused):
                raise _Refused(done.value.text) from None
            pods: list[GatedPod] = done.value
            return pods

    # -- queues ----------------------------------------------------------------------------------------------------

    async def _change_queue(self) -> ActionAnswer:
        action, resource = self._action, KINDS[self._action.kind]
        obj = await self._read(resource, action.namespace, action.name)
        uid, is_held = str(obj["metadata"]["uid"]), action.action == "hold"
        request = queue_state_request(action.kind, action.namespace, action.name, uid, is_held=is_held)
        await self._write(request, resource)
        views = self._feed.views
        key = f"{action.namespace}/{action.name}" if action.namespace else action.name
        row = views.row("cluster-queues", f"{action.kind}/{key}")
        if action.kind == "Queue":
            row = views.row("queues", key)
        seen = None if row is None else visible(row, self._rights)
        effects = queue_effects(seen, is_held=is_held) if isinstance(seen, QueueRow | QuotaRow) else ()
        return ActionAnswer(action.title, self._shown(effects), (), uid, 1)

    # -- jobs ------------------------------------------------------------------------------------------------------

    async def _change_job(self) -> ActionAnswer:
        action = self._action
        workload = await self._read(KINDS["Workload"], action.namespace, action.name)
        kind, name = _job_of(workload)
        job = await self._read(kind.resource, action.namespace, name, check_uid=False)
        job_uid, key = str(job["metadata"]["uid"]), f"{action.namespace}/{action.name}"
        if action.action == "set-priority":
            found = await self._read(PRIORITY_CLASSES, "", action.value, check_uid=False)
            request = priority_request(kind, action.namespace, name, job_uid, action.value)
            effects = priority_effects(self._feed.views, key, int(found.get("value") or 0))
        else:
            is_held = action.action == "hold"
            if problem := why_impossible(kind, job):
                raise _Refused(f"{kind.kind.kind} {action.namespace}/{name} {problem}")
            event = ActivationEvent.DEACTIVATE if is_held else ActivationEvent.ACTIVATE
            request = activation_request(kind, action.namespace, name, job_uid, event)
            effects = workload_effects(self._feed.views, key, is_held=is_held)
        shown = self._shown(effects)  # before the write, after which the places are others
        await self._write(request, kind.resource)
        said = f"{kind.kind.kind} {action.namespace}/{name} is labelled; the components quota and jobs do the rest"
        return ActionAnswer(action.title, (said, *shown), (), str(workload["metadata"]["uid"]), 1)

    # -- requests --------------------------------------------------------------------------------------------------

    async def _read(self, resource: APIResource, namespace: str, name: str, *, check_uid: bool = True) -> Object:
        path = resource.object_path(namespace, name)
        response = await self._transport.request(HTTPRequest("GET", path, "", {"accept": "application/json"}))
        if not response.ok:
            raise _Refused(_refusal("get", resource, namespace, response))
        obj = _decode(response.body)
        if check_uid and self._action.uid not in ("", str(obj["metadata"].get("uid"))):
            raise _Refused("another object has this name now; look at it before you change it")
        return obj

    async def _write(self, request: HTTPRequest, resource: APIResource) -> None:
        if self._dry_run:
            request = msgspec.structs.replace(request, query=encode_query({"dryRun": "All"}))
        response = await self._transport.request(request)
        if not response.ok:
            raise _Refused(_refusal("patch", resource, self._action.namespace, response))

    # -- what is said ----------------------------------------------------------------------------------------------

    def _shown(self, effects: Iterable[Effect]) -> tuple[str, ...]:
        """Without what follows from objects that the viewer may not list."""
        rights, is_hidden = self._rights, False
        shown: list[str] = []
        sees_queues = rights.allow(CLUSTER_QUEUES if self._action.kind == "Workload" else QUEUES)
        for each in effects:
            if each.needs_queues and not sees_queues:
                is_hidden = True
                continue
            shown.append(each.text if rights.everything else redact(each.text, self._sees_names))
        if is_hidden:
            shown.append("what its queue does then is not shown, because you may not list queues")
        return tuple(shown)

    def _sees_names(self, namespace: str) -> bool:
        return namespace == self._action.namespace or self._rights.allow(PODS, namespace)


def _first(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - _MAX_SHOWN
    return (*texts[:_MAX_SHOWN], *((f"and {more} more",) if more > 0 else ()))


def _job_of(workload: Object) -> tuple[JobKind, str]:
    owner = controller_of(workload)
    if owner is None:
        raise _Refused("this Workload belongs to no job")
    group, kind = group_kind_of(owner)
    found = next((each for each in BUILTIN_KINDS if (each.kind.group, each.kind.kind) == (group, kind)), None)
    if found is None:
        raise _Refused(f"its owner is a {kind}: use headgate hold and resume with --job-kinds, or kubectl")
    return found, str(owner.get("name"))


def _refusal(verb: str, resource: APIResource, namespace: str, response: HTTPResponse) -> str:
    return refusal_text(verb, resource, namespace, ListRefused(refusal_message(response), response.status))
