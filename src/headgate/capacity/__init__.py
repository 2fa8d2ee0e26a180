"""Volcano-style queues: who may use how much, who waits for it, and what was promised.

Pure: what the API shows comes in, grants and verdicts come out. Placing pods on nodes is ``scheduling/``'s; putting
gates on pods is ``admission/``'s, and lifting them ``control/``'s.
"""
