"""``headgate``: the command line. Each command is a module of ``cli/commands/``, loaded when it is called."""

from __future__ import annotations

import importlib
import platform
import sys
from typing import Any, Final, TextIO, cast

import click

import headgate
from headgate.cli.options.log_options import log_options, set_up_from
from headgate.cli.options.suggestions import SuggestingGroup
from headgate.cli.options.terminal_text import PrintableStream

INTERRUPTED: Final = 130
_COMMANDS: Final = {
    name: f"headgate.cli.commands.{name.replace('-', '_')}"
    for name in (
        *("annotations", "audit", "backup", "check", "completion", "config", "dashboard", "demo", "doctor", "down"),
        *("explain", "gates", "history", "hold", "install", "install-crds", "load", "nodes", "queues", "record"),
        *("restore", "resume", "run", "simulate", "top", "uninstall", "up", "wait", "workloads"),
    )
}


class _LazyGroup(SuggestingGroup):
    """Imports a command when it is called: numpy and the server should not slow down ``headgate version``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C that a command does not handle itself ends it with 130, as a shell reports it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(f"headgate {ctx.invoked_subcommand or ''}".rstrip() + ": interrupted", err=True)
            sys.exit(INTERRUPTED)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    headgate.__version__,
    prog_name="headgate",
    message="%(prog)s %(version)s",
    help="Print the version of Headgate. `headgate version` adds those of the Kubernetes API and of Python.",
)
@log_options
def main() -> None:
    """Gate-controlled queueing and scheduling for Kubernetes.

    \b
    No cluster?   headgate up            starts one in this process; kubectl works with it
                  headgate up --detach   starts it in the background; headgate down stops it
    Its nodes     headgate nodes fail NAME   see also nodes add, remove, recover, label
                  headgate annotations   prints the annotations that control simulated nodes and pods
    Curious?      headgate demo autoscaler   shows what gates change, in half a minute
    Planning?     headgate simulate      runs a trace of jobs on a virtual clock; see docs/simulate.md
    A cluster?    headgate install       installs Headgate there; headgate uninstall removes it
    Its engines   headgate run           schedules pods with schedulerName: headgate, from this terminal
    Its data      headgate backup FILE   copies it while the server runs; see also restore and check
    Its kinds     headgate install-crds  creates the CustomResourceDefinitions of queues
    Its page      headgate dashboard     serves a live page: what waits and why, queues, gates, nodes
    Its state     headgate top           the same live on this terminal; plain text when piped
    Its queues    headgate queues        shows how full they are; see also explain pod NAME
    Its workloads headgate workloads -A  shows the state of jobs in Kueue's queues; see also explain job NAME
    Its jobs      headgate hold NAME     keeps a job that waits from being admitted; see also resume
    Its progress  headgate wait job NAME --for admitted   waits for it; headgate history job NAME is its past
    Its problems  headgate doctor        says what is wrong, with the fix
    Its gates     headgate gates list -A   shows which gates hold pods; see also gates lift
    Its history   headgate record FILE   records what happens; headgate audit FILE checks it, with the bill
    Its settings  headgate config check FILE   checks a configuration file; see also config docs
    Your shell    headgate completion bash   completes commands, options and names; also zsh and fish

    \b
    Example:
      headgate up
      headgate queues
    """
    print_safely()
    set_up_once()


def print_safely() -> None:
    """Until the end of the command, only printable text is printed (``options/terminal_text.py``)."""
    stdout = sys.stdout

    def restore() -> None:
        sys.stdout = stdout

    sys.stdout = cast("TextIO", PrintableStream(stdout))
    click.get_current_context().call_on_close(restore)


def set_up_once() -> None:
    """Sets up logging without a log option: warnings and errors are shown."""
    set_up_from(click.get_current_context().ensure_object(dict))


@main.command(short_help="Print the version of Headgate and of the Kubernetes API that it serves.")
@log_options
def version() -> None:
    """Print the versions of Headgate and of the Kubernetes API that it serves.

    \b
    Example:
      headgate version
    """
    from headgate.apiserver.discovery.documents import KUBERNETES_VERSION

    click.echo(
        f"headgate {headgate.__version__} (Kubernetes API {KUBERNETES_VERSION}, Python {platform.python_version()})"
    )
