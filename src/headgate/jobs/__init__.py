"""Jobs in Kueue's queues: each managed job has a Workload, runs while that is admitted, and stops when it is evicted.

Pure: ``controller.py`` is served by ``control/shell.py`` as every other controller. Who gets quota is ``quota/``'s.
"""
