"""The audit of a cluster's history: invariants at every revision, and the bill.

``auditor.py`` gives every change to the checkers and returns a report. A checker keeps what it needs of the changes so
far and returns findings (``findings.py``). Checkers share no code with the scheduler and the controllers that they
check: they count in their own, slower way. ``bill.py`` adds up machines and quota that were paid for and not used.
"""
