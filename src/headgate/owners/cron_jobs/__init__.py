"""batch/v1 CronJobs: a Job for every time that a schedule comes due.

``timetable.py`` says when that is and what was missed, ``jobs.py`` makes the Job of a time and says which finished ones
go, ``status.py`` keeps the books. All of that is pure; ``controller.py`` puts the steps in order. What becomes of the
Jobs is ``owners/jobs/``; when a schedule comes due at all is ``kube/cron_times.py``.
"""
