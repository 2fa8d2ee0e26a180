"""Objects of ``kueue.x-k8s.io`` on their way in: the rules of ``quota/kinds/rules.py``, asked about one write.

What comes in all the same (webhooks fail open) is set aside by the engine with a reason, and by nobody else.
"""

from __future__ import annotations

from headgate.admission.policy import Policy, View
from headgate.admission.review import Answer, Request
from headgate.kube.errors import aggregate
from headgate.quota.kinds.rules import judge


def validate(request: Request, policy: Policy, view: View) -> Answer:
    """Everything that is wrong, at once."""
    verdict = judge(request.obj, request.old or None, honours_gates=policy.features.admission_gated_by)
    refusal = aggregate(verdict.problems) if verdict.problems else ""
    return Answer(refusal=refusal, warnings=tuple(verdict.warnings))
