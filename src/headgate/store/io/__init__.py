"""The durable part of the store: the SQLite file, its journal and lock, backups and salvage."""
