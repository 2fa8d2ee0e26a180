"""What objects cost in terms of a ResourceQuota: which limits concern them, how much they use, in which scopes.

One :class:`Evaluator` per resource that costs more than its number (pods, services, claims of volumes and devices),
and one that just counts for every other. Pure arithmetic on objects; who charges whom and when is in
``apiserver/quota/``.
"""

from headgate.kube.resource_quota.evaluator import Evaluator, evaluator_of
from headgate.kube.resource_quota.scopes import requirements

__all__ = ["Evaluator", "evaluator_of", "requirements"]
