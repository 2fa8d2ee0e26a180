"""The scheduler on a live API: watches in, writes out. What is decided, and why, is ``scheduling/scheduler.py``'s."""
