"""``headgate completion SHELL``: prints the script that completes commands, options and names in a shell."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from headgate.cli.options.log_options import log_options
from headgate.cli.options.suggestions import SuggestingChoice

_VARIABLE: Final = "_HEADGATE_COMPLETE"
_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(short_help="Print the completion script for bash, zsh or fish.")
@click.argument("shell", type=SuggestingChoice(_SHELLS))
@log_options
def command(shell: str) -> None:
    """Print the script that completes the commands and options of headgate, and names of queues, pods, jobs and other
    objects of the cluster. Names are read within two seconds, with the options -n, --kubeconfig and --context that are
    typed already.

    \b
    bash   add to ~/.bashrc:  eval "$(headgate completion bash)"
    zsh    add to ~/.zshrc:   eval "$(headgate completion zsh)"
    fish   headgate completion fish > ~/.config/fish/completions/headgate.fish

    `kubectl headgate` is completed by kubectl itself, if kubectl_complete-headgate is in the PATH: the package installs
    it beside headgate.

    \b
    Example:
      headgate completion bash
      source <(headgate completion bash)
    """
    root = click.get_current_context().find_root().command
    complete = _SHELLS[shell](root, {}, "headgate", _VARIABLE)
    # source() of bash would run bash to check its version.
    click.echo(complete.source_template % complete.source_vars())
