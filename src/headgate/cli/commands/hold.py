"""``headgate hold``: deactivates a job that waits for quota. ``resume.py`` activates it again with the same code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click
import msgspec

from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.log_options import log_options
from headgate.client.pager import ListRefused, ListResponse, list_all, refusal_message
from headgate.client.permissions import refusal_text
from headgate.http.transport import Transport, Unreachable
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS, JOB
from headgate.jobs.kinds.job_kind import JobKind, kubectl_names
from headgate.jobs.names import QUEUE_NAME
from headgate.kube.lenient_reader import get_path
from headgate.kube.serializer import wire_json
from headgate.quota import names
from headgate.quota.api.activation import (
    LABEL_OF,
    ActivationEvent,
    WorkloadActivationState,
    label_event,
    workload_state,
)
from headgate.quota.api.workload import read_workload
from headgate.quota.kinds.names import WORKLOADS
from headgate.runtime.actions.job_labels import activation_request, why_impossible
from headgate.runtime.inspection.object_reads import get_object

Object = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

_POLL_S: Final = 0.2
_decode: Final = wire_json.WireDecoder(dict[str, Any]).decode
_decode_list: Final = wire_json.WireDecoder(ListResponse[dict[str, Any]]).decode


class ActivationOutcome(msgspec.Struct, frozen=True):
    """``is_done``: the job is in the requested state."""

    text: str
    is_done: bool


def activation_options(command: F) -> F:
    """The argument and the options of ``headgate hold`` and ``headgate resume``."""
    command = kinds_option(cluster_options(log_options(command)))
    command = click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the result; with 0 the command only sets the label.",
    )(command)
    command = click.option(
        "-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]"
    )(command)
    return click.argument("target", metavar="[TYPE/]NAME")(command)


@click.command(short_help="Deactivate a job that waits for quota: it is not admitted until headgate resume.")
@activation_options
def command(
    target: str, namespace: str, wait_s: float, kinds: tuple[JobKind, ...], kubeconfig: str, context: str
) -> None:
    """Deactivate a job that waits for quota. It keeps its Workload, and is not admitted until headgate resume.

    The command sets the label kueue.x-k8s.io/deactivate=true on the job and waits until Headgate has removed it and has
    set spec.active of the Workload to false. It needs the rights to get and patch the job, and to list Workloads for
    the result. The job can be changed while it is held: a suspended Job may get fewer pods (spec.parallelism), other
    requests or another queue. A job that runs cannot be held, and keeps running.

    The components quota and jobs need --feature-gates ActivationLabels=true.

    \b
    Example:
      headgate hold train -n team-a
      kubectl patch job train -n team-a -p '{"spec":{"parallelism":2}}'
      headgate resume train -n team-a
      headgate hold trainingrun/train --job-kinds FILE       a kind that a file describes
    """
    run_request("hold", ActivationEvent.DEACTIVATE, target, namespace, wait_s, kinds, kubeconfig, context)


def run_request(
    verb: str,
    event: ActivationEvent,
    target: str,
    namespace: str,
    wait_s: float,
    kinds: tuple[JobKind, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Sets the label of ``event``, and prints the result. ``verb``: the name of the command."""
    kind, name = _target(verb, target, kinds)
    rest_config = rest_config_or_exit(verb, kubeconfig, context)

    async def request() -> ActivationOutcome:
        async with connect(rest_config) as transport:
            return await _request(transport, kind, namespace or rest_config.namespace, name, event, wait_s)

    try:
        outcome = asyncio.run(request())
    except Unreachable as problem:
        exit_with_error(verb, str(problem))
    if not outcome.is_done:
        exit_with_error(verb, outcome.text)
    click.echo(outcome.text)


def _target(verb: str, target: str, kinds: tuple[JobKind, ...]) -> tuple[JobKind, str]:
    word, slash, name = target.rpartition("/")
    kind = next((each for each in (*BUILTIN_KINDS, *kinds) if word.lower() in kubectl_names(each)), None)
    if not slash:
        kind = JOB
    if kind is None or not name:
        raise click.UsageError(
            f"name the job: headgate {verb} NAME, or TYPE/NAME; for a kind other than Job add --job-kinds FILE"
        )
    return kind, name


async def _request(
    transport: Transport, kind: JobKind, namespace: str, name: str, event: ActivationEvent, wait_s: float
) -> ActivationOutcome:
    word = kind.kind.kind.lower()
    title = f"{word} {namespace}/{name}"
    job = await perform(transport, get_object(kind.resource, word, namespace, name))
    if isinstance(job, ListRefused):
        return ActivationOutcome(job.text, False)
    problem = why_impossible(kind, job)
    if problem:
        return ActivationOutcome(f"{title} {problem}", False)
    label, uid = LABEL_OF[event], job["metadata"]["uid"]
    response = await transport.request(activation_request(kind, namespace, name, uid, event))
    if not response.ok:
        refused = ListRefused(refusal_message(response), response.status)
        return ActivationOutcome(refusal_text("patch", kind.resource, namespace, refused), False)
    if not wait_s:
        return ActivationOutcome(f"{title} is labelled {label}=true", True)
    clock, job = asyncio.get_running_loop().time, _decode(response.body)
    until_s = clock() + wait_s
    while True:
        found = await _workload(transport, namespace, uid)
        outcome = describe_outcome(title, job, found, event)
        if outcome is not None:
            return outcome
        if clock() >= until_s:
            return describe_overdue(title, label, job, found, wait_s)
        await asyncio.sleep(_POLL_S)
        job = await perform(transport, get_object(kind.resource, word, namespace, name))
        if isinstance(job, ListRefused):
            return ActivationOutcome(job.text, False)


async def _workload(transport: Transport, namespace: str, uid: str) -> Object | ListRefused | None:
    """The unfinished Workload of the job; None if there is none."""
    path, query = WORKLOADS.collection_path(namespace), {"labelSelector": f"{names.JOB_UID_LABEL}={uid}"}
    listed = await perform(transport, list_all(path, _decode_list, query))
    if isinstance(listed, ListRefused):
        return ListRefused(refusal_text("list", WORKLOADS, namespace, listed), listed.status)
    return next((each for each in listed.items if not each["metadata"].get("deletionTimestamp")), None)


def describe_outcome(
    title: str, job: Object, found: Object | ListRefused | None, event: ActivationEvent
) -> ActivationOutcome | None:
    """What has become of the request; None if it is still being processed. ``found``: the Workload of the job."""
    if label_event(_labels(job)) is not None:
        return None
    if isinstance(found, ListRefused):
        return ActivationOutcome(
            f"{title}: Headgate has taken the label; its Workload cannot be seen: {found.text}", True
        )
    if found is None:
        return ActivationOutcome(f"{title}: the label was removed, and the job has no Workload", False)
    workload = read_workload(found)
    if isinstance(workload, str):
        return ActivationOutcome(f"{title}: its Workload is invalid: {workload}", False)
    if label_event(workload.activation_labels) is not None:
        return None
    text, is_done = _RESULTS[event, workload_state(workload)]
    return ActivationOutcome(f"{title}: {text.format(workload=workload.name)}", is_done)


_State = WorkloadActivationState
_BY_OTHERS: Final = "its Workload {workload} was deactivated by another client or by a limit, not by headgate hold; "
_RESULTS: Final[Mapping[tuple[ActivationEvent, WorkloadActivationState], tuple[str, bool]]] = {
    (ActivationEvent.DEACTIVATE, _State.INACTIVE_MANUAL): (
        "held; its Workload {workload} is not admitted until headgate resume",
        True,
    ),
    (ActivationEvent.DEACTIVATE, _State.ACTIVE): ("not held: its Workload {workload} is admitted", False),
    (ActivationEvent.DEACTIVATE, _State.INACTIVE): ("not held: another client resumed it meanwhile", False),
    (ActivationEvent.DEACTIVATE, _State.DEACTIVATED): (
        _BY_OTHERS + "the job is not admitted, and headgate resume does not change that",
        True,
    ),
    (ActivationEvent.ACTIVATE, _State.INACTIVE): ("resumed; its Workload {workload} waits for quota", True),
    (ActivationEvent.ACTIVATE, _State.ACTIVE): ("its Workload {workload} is admitted", True),
    (ActivationEvent.ACTIVATE, _State.INACTIVE_MANUAL): ("not resumed: another client held it meanwhile", False),
    (ActivationEvent.ACTIVATE, _State.DEACTIVATED): (
        _BY_OTHERS + "a user with rights on Workloads activates it with: "
        """kubectl patch workload {workload} --type merge -p '{{"spec":{{"active":true}}}}'""",
        False,
    ),
}


def describe_overdue(
    title: str, label: str, job: Object, found: Object | ListRefused | None, wait_s: float
) -> ActivationOutcome:
    """What to say about a label that was not processed in time. ``found``: the Workload of the job."""
    removal = f"kubectl label {title.partition(' ')[0]} {title.rpartition('/')[2]} {label}-"
    if found is None and not _labels(job).get(QUEUE_NAME):
        text = (
            f"{title} is labelled {label}=true, and has no Workload: it names no queue. Name one with the label "
            f"{QUEUE_NAME}; its Workload will be created with {label}=true. Or remove the label with: {removal}"
        )
        return ActivationOutcome(text, False)
    if found is None:
        text = f"{title} is labelled {label}=true, and has no Workload yet: its Workload will be created with the label"
        return ActivationOutcome(text, True)
    place = "job"
    if label not in _labels(job) and not isinstance(found, ListRefused):
        place = "Workload"
        removal = f"kubectl label workload {get_path(found, ('metadata', 'name'))} {label}-"
    return ActivationOutcome(
        f"{title}: the label {label}=true was not processed within {wait_s:g} s. Do the components quota and jobs run "
        f"with --feature-gates ActivationLabels=true? The label stays on the {place} until they do; remove it with: "
        f"{removal}",
        False,
    )


def _labels(obj: Object) -> Mapping[str, str]:
    return get_path(obj, ("metadata", "labels")) or {}
