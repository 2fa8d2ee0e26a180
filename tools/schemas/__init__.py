"""The parts of ``tools/generate_schemas.py``: reading Go types, reading OpenAPI, joining the two."""
