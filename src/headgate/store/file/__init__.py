"""The SQLite file: who may open it, and whether it is what was written."""
