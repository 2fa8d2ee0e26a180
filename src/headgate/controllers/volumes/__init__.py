"""PersistentVolumes and their claims: binding, reclaim policies, protection, and hollow volumes for simulated nodes.

``controller.py`` binds claims to volumes, in the steps of ``claim_sync.py`` and ``volume_sync.py``.
``hollow_provisioner.py`` creates hollow volumes, ``protection.py`` keeps objects in use from being deleted, and
``ephemeral_volumes.py`` creates the claims of ephemeral volumes. Which node a pod with claims gets is decided in
``scheduling/volumes/``.
"""
