"""batch/v1 Jobs: pods that run to their end, counted exactly once each.

``spec.py`` and ``members.py`` read the job and its pods, ``sums.py`` adds up what they amount to; ``ending.py`` says
whether the job is over (with ``policies.py``, ``success.py``), ``plan.py`` which pods to make or end (with
``backoff.py``, ``order.py``), ``bodies.py`` what they look like, ``counting.py`` which of them may be let go of,
``status.py`` what is written. All of that is pure; ``work.py`` puts the steps in order, ``loose.py`` takes finalizers
off, ``controller.py`` hears and wakes. Jobs that finished are removed by ``owners/ttl.py``.
"""
