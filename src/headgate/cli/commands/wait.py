"""``headgate wait KIND NAME --for STATE``: waits until a pod, a job or a Workload has reached a state."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import click

from headgate.cli.options.cluster_access import cluster_options, connect, exit_with_error, perform, rest_config_or_exit
from headgate.cli.options.durations import read_seconds
from headgate.cli.options.job_options import kinds_option
from headgate.cli.options.log_options import log_options
from headgate.cli.options.name_completion import complete_target, complete_values
from headgate.cli.options.suggestions import closest
from headgate.client.kubeconfig import RESTConfig
from headgate.client.pager import ListRefused
from headgate.http.transport import Unreachable
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS, JOB
from headgate.jobs.kinds.job_kind import JobKind, kubectl_names
from headgate.runtime.inspection.awaited import CONDITIONS, OF_WORKLOADS, AwaitedObject, Condition, read_awaited
from headgate.runtime.inspection.watched_lists import WatchedLists

_TIMED_OUT: Final = 3
_IMPOSSIBLE: Final = 4
_DELETED: Final = 5
_INTERRUPTED: Final = 130
_SETTLE_S: Final = 0.05
_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io"), "workload"),
}
Kind = JobKind | str


@click.command(short_help="Wait until a pod, a job or a Workload is ungated, admitted, scheduled, running or finished.")
@click.argument("target", nargs=-1, metavar="KIND NAME", shell_complete=complete_target(("pod", "job", "workload")))
@click.option(
    "--for",
    "wanted",
    required=True,
    metavar="STATE",
    shell_complete=complete_values(CONDITIONS),
    help="gate-lifted, gate-lifted=GATE, admitted, scheduled, running or finished.",
)
@click.option("--timeout", default="", metavar="TIME", help="Give up after this time (30s, 10m). [default: never]")
@click.option(
    "--any-uid",
    is_flag=True,
    help="Also wait for an object that does not exist yet, or that is deleted and created again under this name.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no progress.")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace. [default: the context's]")
@kinds_option
@cluster_options
@log_options
def command(
    target: tuple[str, ...],
    wanted: str,
    timeout: str,
    any_uid: bool,
    quiet: bool,
    namespace: str,
    kinds: tuple[JobKind, ...],
    kubeconfig: str,
    context: str,
) -> None:
    """Wait until a pod, a job or a Workload has reached a state. The command watches and does not poll; it needs the
    rights to list and watch the object, for `admitted` and `gate-lifted` also Workloads, and for `scheduled` of a job
    also pods. The reason why it still waits is on standard error.

    \b
    gate-lifted      it has no gate (of a pod: spec.schedulingGates; of a job or Workload: the gated-by annotations)
    gate-lifted=G    it does not have gate G
    admitted         its queue has admitted it: Kueue's Workload, or the stamp of a Volcano queue
    scheduled        the pod has a node; of a Job: all pods that it wants at a time
    running          the pod runs; of a job: at least one of its pods is ready
    finished         it has succeeded

    An object that has succeeded has passed all states. The object is the one that exists at the start: one that is
    created later under the same name is another (--any-uid waits for it as well).

    \b
    Exit codes: 0 reached, 1 an error, 2 a wrong option, 3 not reached within --timeout, 4 it cannot be reached any more
    because the object has failed, 5 the object was deleted, 130 interrupted.

    \b
    Example:
      headgate wait job train -n team-a --for admitted --timeout 10m
      headgate wait job/train -n team-a --for finished && echo done
      headgate wait pod train-3 -n team-a --for gate-lifted=example.com/data
      headgate wait pod train-3 -n team-a --for scheduled --any-uid
    """
    kind, name = _target(target, kinds)
    condition, gate = _condition(kind, wanted)
    timeout_s = _timeout(timeout)
    rest_config = rest_config_or_exit("wait", kubeconfig, context)
    scope = namespace or rest_config.namespace
    try:
        code = asyncio.run(_wait(rest_config, kind, scope, name, condition, gate, timeout_s, any_uid, _Progress(quiet)))
    except Unreachable as problem:
        exit_with_error("wait", str(problem))
    except KeyboardInterrupt:
        click.echo("headgate wait: interrupted", err=True)
        code = _INTERRUPTED
    sys.exit(code)


def _target(target: tuple[str, ...], kinds: tuple[JobKind, ...]) -> tuple[Kind, str]:
    word, _, name = (target[0] if target else "").partition("/")
    rest = target[1:] if not name else (name, *target[1:])
    kind: Kind | None = _KINDS.get(word.lower()) or next(
        (each for each in (*BUILTIN_KINDS, *kinds) if word.lower() in kubectl_names(each)), None
    )
    if kind is None or len(rest) != 1 or not rest[0]:
        raise click.UsageError(
            "name the object: headgate wait KIND NAME; KIND is pod, job, workload, or a kind of --job-kinds FILE"
        )
    return kind, rest[0]


def _condition(kind: Kind, wanted: str) -> tuple[Condition, str]:
    word, has_gate, gate = wanted.partition("=")
    found = next((each for each in CONDITIONS if each == word), None)
    if found is None or (has_gate and (found != "gate-lifted" or not gate)):
        close = closest(word, CONDITIONS)
        hint = f" Did you mean '{close}'?" if close and found is None else ""
        text = f"'{wanted}' is not one of {', '.join(CONDITIONS)} or gate-lifted=GATE.{hint}"
        raise click.BadParameter(text, param_hint="--for")
    if kind == "workload" and found not in OF_WORKLOADS:
        raise click.BadParameter(
            f"a Workload is never {found}: its pods are; wait for its job, or for {', '.join(OF_WORKLOADS)}",
            param_hint="--for",
        )
    if isinstance(kind, JobKind) and kind is not JOB and found == "scheduled":
        raise click.BadParameter(
            f"which pods a {kind.kind.kind} has is known for Jobs only: wait for its pods, or for running",
            param_hint="--for",
        )
    return found, gate


def _timeout(text: str) -> float | None:
    found = read_seconds(text, allows_zero=True) if text else None
    if isinstance(found, str):
        raise click.BadParameter(found, param_hint="--timeout")
    return found


class _Progress:
    """Why it still waits, on standard error: one line that is rewritten on a terminal, otherwise a line for each
    change."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self._last = ""

    def show(self, text: str) -> None:
        if self._quiet or text == self._last:
            return
        self._last = text
        click.echo(f"\r\x1b[K{text}" if self._is_terminal else text, err=True, nl=not self._is_terminal)

    def end(self) -> None:
        if self._last and self._is_terminal and not self._quiet:
            click.echo("", err=True)
            self._last = ""


async def _wait(
    rest_config: RESTConfig,
    kind: Kind,
    namespace: str,
    name: str,
    condition: Condition,
    gate: str,
    timeout_s: float | None,
    any_uid: bool,
    progress: _Progress,
) -> int:
    title = f"{kind.kind.kind.lower() if isinstance(kind, JobKind) else kind} {namespace}/{name}"
    last = ""
    try:
        async with asyncio.timeout(timeout_s):
            changed = asyncio.Event()
            async with connect(rest_config) as transport, WatchedLists(transport, changed.set) as lists:
                uid = ""
                while True:
                    changed.clear()
                    found = await perform(lists, read_awaited(kind, namespace, name, condition, gate))
                    if isinstance(found, ListRefused) or lists.missing_watches:
                        text = found.text if isinstance(found, ListRefused) else lists.missing_watches[0]
                        progress.end()
                        exit_with_error("wait", text)
                    ended, last = _step(title, name, found, uid, any_uid)
                    if ended is not None:
                        progress.end()
                        click.echo(last, err=ended != 0)
                        return ended
                    uid = found.uid or uid
                    problems = list(lists.problems.values())
                    progress.show(f"{last} ({problems[0]})" if problems else last)
                    lists.problems.clear()
                    await changed.wait()
                    await asyncio.sleep(_SETTLE_S)
    except TimeoutError:
        progress.end()
        click.echo(f"headgate wait: not {_words(condition, gate)} within {timeout_s:g} s: {last or title}", err=True)
        return _TIMED_OUT


def _words(condition: Condition, gate: str) -> str:
    return f"{condition}={gate}" if gate else condition


def _step(title: str, name: str, found: AwaitedObject, uid: str, any_uid: bool) -> tuple[int | None, str]:
    """The exit code if the wait is over, and a text. ``uid``: of the object that was seen first; empty for none."""
    if found.state is None:
        if any_uid:
            return None, f"{title}: it does not exist{' any more' if uid else ' yet'}"
        if not uid:
            return 1, f"headgate wait: there is no {title}; --any-uid waits until it is created"
        return _DELETED, f"headgate wait: {title} was deleted"
    if uid and found.uid != uid and not any_uid:
        text = f"{title} was deleted, and another {name} was created (uid {found.uid}); --any-uid waits for that one"
        return _DELETED, f"headgate wait: {text}"
    text = f"{title}: {found.state.text}"
    if found.state.outcome == "reached":
        return 0, text
    if found.state.outcome == "impossible" and not any_uid:
        return _IMPOSSIBLE, f"headgate wait: {text}"
    return None, text
