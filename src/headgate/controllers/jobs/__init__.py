"""batch/v1 Jobs: pods that run to completion, each counted exactly once.

``spec.py`` and ``job_pods.py`` read the job and its pods, ``pod_summary.py`` adds them up. ``completion.py`` decides
whether the job is over (with ``policies.py``), ``pod_plan.py`` which pods to create or delete (with ``backoff.py``),
``pod_template.py`` builds those pods, ``counting.py`` decides which pods may lose their finalizer, and ``status.py``
builds the status. All of that is pure functions. ``job_reconciler.py`` puts the steps in order, ``orphan_pods.py``
removes finalizers, ``controller.py`` watches and enqueues. ``controllers/ttl_after_finished.py`` deletes finished jobs.
"""
