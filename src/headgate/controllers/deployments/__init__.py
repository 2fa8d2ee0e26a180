"""Deployments: which ReplicaSet matches the template, how large each ReplicaSet is, and the progress of the rollout.

``controller.py`` watches, enqueues and puts the steps in order; the other modules decide and are pure functions.
``replica_sets.py`` reads ReplicaSets, ``revisions.py`` finds the new one and keeps the history, ``rolling_update.py``
and ``scaling.py`` decide their sizes, ``progress.py`` and ``status.py`` build conditions and status. The ReplicaSets
create the pods.
"""
