"""``headgate install``: prints, applies or checks the objects of an installation on a cluster."""

from __future__ import annotations

import asyncio
import importlib
import shlex
import sys
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from headgate.cli.configuration.install_values import problem_in_pods, read_values_file
from headgate.cli.options.cluster_access import (
    INTERRUPTED,
    cluster_options,
    connect,
    exit_with_error,
    rest_config_or_exit,
)
from headgate.cli.options.log_options import log_options
from headgate.cli.options.yaml_output import dump_all
from headgate.cli.wiring.definitions import perform_requests, perform_steps
from headgate.client.installer import InstallRefused, install
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import Transport, Unreachable
from headgate.install.applying import apply_object, helm_release
from headgate.install.checking import check_object, lacking_rights, refusals
from headgate.install.component_change import ReplicasNotStopped, stop_before_change
from headgate.install.existing import UnknownInstallation, being_deleted, elsewhere, existing_installations
from headgate.install.kinds import display_name
from headgate.install.manifests import install_objects, is_manager, needed_definitions
from headgate.install.options import (
    COMPONENTS,
    MAX_REPLICAS,
    NAMESPACE,
    InstallOptions,
    QueueOptions,
    gates_only,
    problem_of,
    problem_of_namespace,
    with_components,
)
from headgate.install.pruning import PrunePlan, look_for_left_over, prune, prune_requests, withdraw_webhooks
from headgate.install.status import status_steps
from headgate.install.uninstall_steps import UninstallError, refuse_without_rights
from headgate.quota.kinds.definitions import adapted

Object = dict[str, Any]

_POLL_S: Final = 1.0
_MODES: Final = ("prints", "applies", "checks", "reports", "prunes")
_LEFT_OVER: Final = "left over from other options"
_UNKNOWN: Final = f"not known whether more is {_LEFT_OVER}: missing right:"


def _not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """An empty text is mostly that of a variable of the shell that is not set."""
    if value is not None and not value.strip():
        raise click.BadParameter("the value is empty; leave the option out for its default")
    return value or ""


@click.command(short_help="Install Headgate on a cluster: print, apply or check its objects.")
@click.option("--namespace", default=NAMESPACE, show_default=True, metavar="NS", help="The namespace of the objects.")
@click.option(
    "--components",
    default=None,
    callback=_not_empty,
    metavar="LIST",
    help=f"The components, separated by commas: {', '.join(COMPONENTS)}. [default: all except gates]",
)
@click.option(
    "--gates-only",
    "only_gates",
    is_flag=True,
    help="The components gates and webhooks: the queue gate for pods that your scheduler binds.",
)
@click.option(
    "--queue",
    default=None,
    callback=_not_empty,
    metavar="NAME",
    help="Create this Queue, and gate the pods that name it.",
)
@click.option(
    "--capability",
    "capability",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    help="The most that pods of --queue may use, such as cpu=20. May be repeated. [default: no limit]",
)
@click.option("--image", default=None, callback=_not_empty, metavar="IMAGE", help="The image, with its tag or digest.")
@click.option("--replicas", type=click.IntRange(1, MAX_REPLICAS), default=None, metavar="N", help="Pods. [default: 2]")
@click.option(
    "--dashboard",
    "has_page",
    is_flag=True,
    help="Also run the live page (headgate dashboard) as a Deployment, for users with tokens of the cluster.",
)
@click.option(
    "--values",
    "values_file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="A values file of the Helm chart, for all other options.",
)
@click.option(
    "--skip-crds",
    is_flag=True,
    help="Leave the CustomResourceDefinitions out; `headgate install-crds` creates and updates them.",
)
@click.option("--print", "prints", is_flag=True, help="Print the objects as YAML (the default).")
@click.option("--apply", "applies", is_flag=True, help="Create the objects, or update them.")
@click.option(
    "--prune/--no-prune",
    "prunes",
    default=True,
    help="With --apply: remove the objects that this installation has from other options, or keep them. "
    "[default: prune]",
)
@click.option(
    "--adopt",
    "adopts",
    is_flag=True,
    help="With --apply: take over objects of the same names that no installation made, such as those of version 0.2.0.",
)
@click.option("--check", "checks", is_flag=True, help="Compare the cluster with the objects; write nothing.")
@click.option("--status", "reports", is_flag=True, help="Say whether the installation works; only read.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="With --status: wait until the installation works, for at most so long. [default: 0]",
)
@cluster_options
@log_options
def command(
    namespace: str,
    components: str,
    only_gates: bool,
    queue: str,
    capability: tuple[str, ...],
    image: str,
    replicas: int | None,
    has_page: bool,
    values_file: Path | None,
    skip_crds: bool,
    prints: bool,
    applies: bool,
    prunes: bool,
    adopts: bool,
    checks: bool,
    reports: bool,
    wait_s: float,
    kubeconfig: str,
    context: str,
) -> None:
    """Print the objects that run Headgate on a cluster, apply them, or check them.

    The objects are CustomResourceDefinitions, a ServiceAccount with the rights of the components, a Deployment with
    two replicas, Services, a NetworkPolicy and a PodDisruptionBudget. The Helm chart has the same objects.
    CustomResourceDefinitions that Volcano or Kueue installed are used and never changed.

    \b
    Example:
      headgate install --gates-only --queue team-a --capability cpu=20 --apply
                                            gate pods of one queue; your scheduler stays
      headgate install --components scheduler,webhooks > headgate.yaml
      headgate install --skip-crds | kubectl apply --server-side --field-manager=headgate-install -f -
                                            the same as --apply, except the definitions and the removal
      headgate install --apply              all components; what is left over from other options is removed
      headgate install --check              what is there, differs or is missing, and which rights you lack
      headgate install --status --wait 60   are the replicas ready, and does each component have a leader?
    """
    if prints + applies + checks + reports > 1:
        raise click.UsageError("--print, --apply, --check and --status exclude each other: choose one")
    if not prunes and not applies:
        raise click.UsageError("--no-prune is for --apply")
    if adopts and not applies:
        raise click.UsageError("--adopt is for --apply")
    if wait_s and not reports:
        raise click.UsageError("--wait is for --status")
    if problem := problem_of_namespace(namespace):
        raise click.BadParameter(problem, param_hint="--namespace")
    options = _options(components, only_gates, queue, capability, image, replicas, values_file)
    if has_page:
        options = msgspec.structs.replace(options, dashboard=msgspec.structs.replace(options.dashboard, enabled=True))
    if skip_crds:
        options = msgspec.structs.replace(options, crds=msgspec.structs.replace(options.crds, enabled=False))
    definitions, objects = needed_definitions(options), install_objects(options, namespace)
    if not (applies or checks or reports):
        namespaces, rest = objects[:1], objects[1:]
        click.echo(dump_all([*namespaces, *definitions, *rest]), nl=False)
        return
    rest_config = rest_config_or_exit("install", kubeconfig, context)
    try:
        if applies:
            plan = PrunePlan(options, namespace, keeps_objects=not prunes)
            failed = asyncio.run(_apply(rest_config, plan, definitions, objects, adopts=adopts))
        elif checks:
            failed = asyncio.run(_check(rest_config, PrunePlan(options, namespace), definitions, objects))
        else:
            failed = asyncio.run(_status(rest_config, namespace, options, wait_s))
    except (Unreachable, UninstallError) as error:
        exit_with_error("install", str(error))
    except KeyboardInterrupt:
        exit_with_error("install", INTERRUPTED)
    if failed:
        sys.exit(1)


def _options(
    components: str,
    only_gates: bool,
    queue: str,
    capability: tuple[str, ...],
    image: str,
    replicas: int | None,
    values_file: Path | None,
) -> InstallOptions:
    options = InstallOptions() if values_file is None else _values(values_file)
    if only_gates and components:
        raise click.UsageError("--gates-only chooses the components; leave --components out")
    if capability and not queue:
        raise click.UsageError("--capability is the limit of --queue: name the queue")
    if only_gates:
        options = msgspec.structs.replace(options, components=gates_only(QueueOptions()).components)
    elif components:
        chosen = with_components(options, [each.strip() for each in components.split(",")])
        if isinstance(chosen, str):
            raise click.BadParameter(chosen, param_hint="--components")
        options = chosen
    if queue:
        options = msgspec.structs.replace(options, queue=QueueOptions(queue, _amounts(capability)))
    if image:
        options = msgspec.structs.replace(options, image=_image(options, image))
    if replicas is not None:
        options = msgspec.structs.replace(options, replicas=replicas)
    if problem := problem_of(options) or (_problem_in_pods(options) if values_file is not None else ""):
        raise click.UsageError(problem)
    return options


def _problem_in_pods(options: InstallOptions) -> str:
    return problem_in_pods(options, importlib.import_module("headgate.cli.commands.run").command)


def _values(path: Path) -> InstallOptions:
    run = importlib.import_module("headgate.cli.commands.run")
    options = read_values_file(path, run.command)
    if isinstance(options, list):
        raise click.BadParameter("\n".join(options), param_hint="--values")
    return options


def _amounts(texts: tuple[str, ...]) -> dict[str, str | int]:
    amounts: dict[str, str | int] = {}
    for text in texts:
        resource, amount = _amount(text)
        if resource in amounts:
            problem = f"{resource} has two limits, {amounts[resource]} and {amount}: name one"
            raise click.BadParameter(problem, param_hint="--capability")
        amounts[resource] = amount
    return amounts


def _amount(text: str) -> tuple[str, str]:
    resource, equals, amount = text.partition("=")
    if not equals or not resource or not amount:
        raise click.BadParameter(f"{text!r} is not RESOURCE=AMOUNT, such as cpu=20", param_hint="--capability")
    return resource, amount


def _image(options: InstallOptions, text: str) -> Any:
    """The tag is what follows the last colon, unless that belongs to the port of a registry."""
    name, at, digest = text.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    if at and not digest:
        raise click.BadParameter(f"{text!r} ends before its digest", param_hint="--image")
    return msgspec.structs.replace(options.image, repository=head, tag=tag, digest=digest)


async def _apply(
    rest_config: RESTConfig, plan: PrunePlan, definitions: tuple[Object, ...], objects: list[Object], *, adopts: bool
) -> bool:
    """Applies the namespace, the definitions and the other objects, and removes what is of other options. Returns
    whether one failed."""
    async with connect(rest_config) as transport:
        await _refuse_before_writing(transport, plan, definitions, objects, adopts=adopts)
        failed = False
        for number, obj in enumerate(objects):
            if number == 1:  # after the namespace
                for definition in definitions:
                    done = await perform_requests(transport, install(definition, adapted))
                    if isinstance(done, InstallRefused):
                        exit_with_error("install", done.text)
                    click.echo(f"customresourcedefinition.apiextensions.k8s.io/{done.name} {done.action}")
            if is_manager(obj):
                await perform_steps(transport, withdraw_webhooks(plan), click.echo)
                await _stop_before_change(transport, obj)
            result = await perform_requests(transport, apply_object(obj, adopts=adopts))
            if result.problem:
                click.echo(f"{result.name} failed: {result.problem}", err=True)
                failed = True
                if number == 0:
                    break  # everything else needs the namespace
            else:
                reason = f": not ours: {result.detail}" if result.detail else ""
                click.echo(f"{result.name} {result.action}{reason}")
        if not failed:
            await perform_steps(transport, prune(plan), click.echo)
        if plan.keeps_objects and not failed:
            found = await perform_steps(transport, look_for_left_over(plan), click.echo)
            for name in found.names:
                click.echo(f"{name} kept: {_LEFT_OVER}")
            for right in found.unknown:
                click.echo(f"{_UNKNOWN} {right}")
        return failed


async def _refuse_before_writing(
    transport: Transport, plan: PrunePlan, definitions: tuple[Object, ...], objects: list[Object], *, adopts: bool
) -> None:
    """Ends the command if the cluster has another installation, if an object of another owner has the name of one of
    the objects, or if the user lacks a right."""
    namespace = plan.namespace
    if release := await perform_requests(transport, helm_release(namespace)):
        text = f"Helm manages this installation; run: helm upgrade {release} --namespace {namespace}"
        exit_with_error("install", text)
    found = await perform_requests(transport, existing_installations())
    if isinstance(found, UnknownInstallation):
        exit_with_error("install", f"cannot look for an existing installation: {found.text}; nothing was written")
    for other in elsewhere(found, namespace):
        exit_with_error("install", f"{other.conflict}; nothing was written")
    # The Secret, which is applied before the Deployment, tells replicas that end to register their webhooks again.
    for obj in await perform_requests(transport, being_deleted([*objects, *definitions])):
        if obj in definitions:
            click.echo(f"{display_name(obj)} is being deleted; waiting until it is gone")
            continue
        name = f"the namespace {namespace}" if obj is objects[0] else display_name(obj)
        text = f"{name} is being deleted; nothing was written; run the command again when it is gone"
        exit_with_error("install", text)
    refused = await perform_requests(transport, refusals([objects[0], *definitions, *objects[1:]], adopts=adopts))
    if refused:
        listed = "".join(f"\n  {each}" for each in refused)
        advice = "\nask a cluster administrator" if any(each.startswith("missing right") for each in refused) else ""
        exit_with_error("install", f"nothing was written:{listed}{advice}")
    requests = await perform_steps(transport, prune_requests(plan), click.echo)
    await perform_steps(transport, refuse_without_rights(requests), click.echo)


async def _stop_before_change(transport: Transport, deployment: Object) -> None:
    try:
        if done := await perform_requests(transport, stop_before_change(deployment)):
            click.echo(f"{display_name(deployment)} {done}")
    except ReplicasNotStopped as problem:
        exit_with_error("install", str(problem))


async def _check(
    rest_config: RESTConfig, plan: PrunePlan, definitions: tuple[Object, ...], objects: list[Object]
) -> bool:
    """Prints the state of each object, the missing rights, and what is of other options. Returns whether something is
    to be done."""
    async with connect(rest_config) as transport:
        everything = [objects[0], *definitions, *objects[1:]]
        namespace_is_missing = False
        found = await perform_requests(transport, existing_installations())
        if isinstance(found, UnknownInstallation):
            click.echo(f"existing installation: unknown: {found.text}")
            complete = False
        else:
            others = elsewhere(found, objects[0]["metadata"]["name"])
            for other in others:
                click.echo(f"existing installation: {other.conflict}")
            complete = not others
        for obj in everything:
            if namespace_is_missing and obj["metadata"].get("namespace") == objects[0]["metadata"]["name"]:
                click.echo(f"{display_name(obj)}: missing")
                continue
            result = await perform_requests(transport, check_object(obj))
            click.echo(f"{result.name}: {result.state}{f': {result.detail}' if result.detail else ''}")
            complete = complete and result.state in ("present", "not ours")
            namespace_is_missing = namespace_is_missing or (obj is objects[0] and result.state == "missing")
        lacking = await perform_requests(transport, lacking_rights(everything))
        for right in lacking:
            click.echo(f"missing right: {right}")
        complete = await _check_left_over(transport, plan) and complete
        if complete and not lacking:
            click.echo("The installation is complete.")
        return not complete or bool(lacking)


async def _check_left_over(transport: Transport, plan: PrunePlan) -> bool:
    """Prints what is of other options, and the command that removes it. Returns whether there is nothing."""
    found = await perform_steps(transport, look_for_left_over(plan), click.echo)
    for name in found.names:
        click.echo(f"{name}: {_LEFT_OVER}")
    for name in found.queues:
        click.echo(f"queue.scheduling.volcano.sh/{name}: {_LEFT_OVER}, and kept, because pods may wait in it")
    for right in found.unknown:
        click.echo(f"{_UNKNOWN} {right}")
    if found.names:
        click.echo(f"to remove what is {_LEFT_OVER}, run: {_same_command('--apply')}")
    return not found.names and not found.unknown


def _same_command(mode: str) -> str:
    """This command in another mode."""
    context = click.get_current_context()
    words = ["headgate", "install"]
    for each in context.command.params:
        name, value = str(each.name), context.params.get(str(each.name))
        if name in _MODES or name not in context.params:  # the options of the log are not parameters of the command
            continue
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if value is True:
            words.append(each.opts[0])
        else:
            for item in value if isinstance(value, tuple) else (value,):
                words += [each.opts[0], str(item)]
    return shlex.join([*words, mode])


async def _status(rest_config: RESTConfig, namespace: str, options: InstallOptions, wait_s: float) -> bool:
    """Prints one line for each part of the installation. Returns whether one does not work."""
    async with connect(rest_config) as transport:
        deadline_s = time.monotonic() + wait_s
        while True:
            steps = status_steps(namespace, options.components.names())
            found = await asyncio.gather(*(perform_requests(transport, each) for each in steps))
            failed = any(each.problem for each in found)
            if not failed or time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(_POLL_S)
        for part in found:
            click.echo(f"{part.name}: {part.problem or part.detail}", err=bool(part.problem))
        return failed
