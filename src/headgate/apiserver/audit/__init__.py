"""Who wrote what: ``event.py`` says it as ``audit.k8s.io/v1`` Events, ``shell.py`` writes them to a file."""
