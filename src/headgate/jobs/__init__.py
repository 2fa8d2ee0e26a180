"""Jobs in Kueue's queues: each managed job has a Workload, runs while the Workload is admitted, and stops on eviction.

Pure: ``runtime/controller_manager.py`` runs ``jobs/framework/job_controller.py`` like every other controller.
``quota/`` decides which Workload gets quota.
"""
