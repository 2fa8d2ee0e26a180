"""The disruption controller: it keeps the status of PodDisruptionBudgets and resets stale DisruptionTarget conditions.

``budget_pods.py`` counts the pods of each budget, ``scales.py`` finds the expected number of pods, ``status.py`` builds
the status. ``controller.py`` watches and enqueues.
"""
