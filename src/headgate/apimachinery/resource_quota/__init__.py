"""The usage of a ResourceQuota by an object: which resources, how much, in which scopes.

There is one :class:`Evaluator` for each resource whose usage is more than a number of objects (pods, services, claims
of volumes and devices), and one for all others, which counts objects. This package only computes usage;
``apiserver/registry/resource_quota.py`` adds it to the quota.
"""

from headgate.apimachinery.resource_quota.evaluator import Evaluator, evaluator_of
from headgate.apimachinery.resource_quota.scopes import requirements

__all__ = ["Evaluator", "evaluator_of", "requirements"]
