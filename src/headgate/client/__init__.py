"""A client for any Kubernetes API server: kubeconfig, credentials, transports, informers, writes, leader election.

``kubeconfig.py`` and ``credential_sources.py`` find the server and the credentials. A transport
(``http/transport.py``) is HTTP or a call in the same process. ``client/io/informer.py`` lists and watches,
``client/io/writer.py`` writes and returns a write status (``write_status.py``), ``client/io/event_recorder.py`` emits
Events, and ``client/io/leader_elector.py`` elects the replica that may write. This package never imports
``apiserver/``.
"""
