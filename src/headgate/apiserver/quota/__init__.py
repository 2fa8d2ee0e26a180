"""ResourceQuota at work: refusing what does not fit, and keeping the books.

The books are the quotas' own ``status.used`` in the applied head: they change in the same transaction as the object
that is charged, roll back with it, and need not be rebuilt after a crash. ``check.py`` is what every kube-apiserver
does; ``ledger.py`` also does what its kube-controller-manager would (counting anew, giving back), if told to. What an
object costs is in ``kube/resource_quota/``.
"""

from headgate.apiserver.quota.check import refusal
from headgate.apiserver.quota.ledger import recount, settle

__all__ = ["recount", "refusal", "settle"]
