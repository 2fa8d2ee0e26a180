"""batch/v1 Jobs: pods that run to their end, counted exactly once each.

``spec.py`` and ``members.py`` read the job and its pods, ``sums.py`` adds up what they amount to; ``ending.py`` says
whether the job is over (with ``policies.py``, ``success.py``), ``plan.py`` which pods to make or end (with
``backoff.py``), ``counting.py`` which pods may be let go of, ``status.py`` what is written. All of that is pure;
``controller.py`` puts the steps in order. Jobs that finished are removed by ``owners/ttl.py``.
"""
