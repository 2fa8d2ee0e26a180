"""Models of Cluster Autoscaler and of Karpenter: which pods make them buy machines, and when they give them back.

Pure state machines on a clock that is an argument (``cluster_autoscaler.py``, ``karpenter.py``); ``shell.py`` runs one
against any API server. They follow the published behaviour by rules, CA-1 to CA-27 and KP-1 to KP-11, that tests carry
in their names; ``docs/autoscalers.md`` lists the rules and what is left out.
"""
