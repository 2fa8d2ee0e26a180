"""Runs the engines: it watches, keeps time, performs the requests that an engine asks for, and returns the responses.

``controller_manager.py`` runs all controllers on one set of watches and one work queue. Nothing here decides what is
done.
"""
