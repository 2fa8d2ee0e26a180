"""The usage of a ResourceQuota by an object: which resources, how much, in which scopes.

One :class:`Evaluator` for each resource that uses more than its count (pods, services, claims of volumes and devices),
and one that counts objects for all others. Pure arithmetic; ``apiserver/registry/resource_quota.py`` charges the quota.
"""

from headgate.apimachinery.resource_quota.evaluator import Evaluator, evaluator_of
from headgate.apimachinery.resource_quota.scopes import requirements

__all__ = ["Evaluator", "evaluator_of", "requirements"]
