"""``headgate resume``: activates a job that ``headgate hold`` deactivated."""

from __future__ import annotations

import click

from headgate.cli.commands.hold import activation_options, run_request
from headgate.jobs.kinds.job_kind import JobKind
from headgate.quota.api.activation import ActivationEvent


@click.command(short_help="Activate a job that headgate hold deactivated: it waits for quota again.")
@activation_options
def command(
    target: str, namespace: str, wait_s: float, kinds: tuple[JobKind, ...], kubeconfig: str, context: str
) -> None:
    """Activate a job that headgate hold deactivated. It waits for quota again, in its former order.

    The command sets the label kueue.x-k8s.io/activate=true on the job and waits until Headgate has removed it and has
    set spec.active of the Workload to true. It does not undo spec.active=false that another client set on the Workload,
    or that followed from a limit: that takes the right to patch Workloads.

    The components quota and jobs need --feature-gates ActivationLabels=true.

    \b
    Example:
      headgate hold train -n team-a
      headgate resume train -n team-a
      headgate explain job train -n team-a                   why does it still wait?
    """
    run_request("resume", ActivationEvent.ACTIVATE, target, namespace, wait_s, kinds, kubeconfig, context)
