"""The configuration file of ``headgate run``: its schema, how it is read, which flags set the same values."""
