"""Claims and the volumes they get: who is bound to whom, what becomes of both when one goes, and volumes on paper.

``controller.py`` binds, by the steps in ``claims.py`` and ``volumes.py``; ``provisioner.py`` makes hollow volumes,
``protection.py`` keeps what is in use from going, and ``ephemeral.py`` makes the claims that pods bring with them.
Which node a pod with claims goes to is the scheduler's business (``scheduling/storage/``).
"""
