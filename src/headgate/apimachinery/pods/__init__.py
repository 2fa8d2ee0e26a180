"""What the API server does to pods beyond validation: binding, resize, dropped fields, warnings."""
