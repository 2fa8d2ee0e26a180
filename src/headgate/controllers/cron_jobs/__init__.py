"""batch/v1 CronJobs: one Job for each time of a schedule.

``schedule.py`` finds the times that are due or missed, ``jobs.py`` builds the Job for a time and selects finished Jobs
to delete, ``status.py`` keeps the status. All of that is pure functions; ``controller.py`` puts the steps in order.
``controllers/jobs/`` runs the Jobs; ``kube/cron.py`` parses the schedule.
"""
