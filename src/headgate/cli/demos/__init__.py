"""The scenarios of ``headgate demo``. Each one runs in its own clusters, which it removes when it ends."""
