"""The audit of a cluster's history: invariants at every revision, and the bill.

``auditor.py`` gives every change to the judges and returns a report. A judge keeps what it needs of the changes so far
and returns findings (``findings.py``). Judges share no code with the engines that they judge: they count in their own,
slower way. ``bill.py`` adds up machines and quota that were paid for and not used.
"""
