"""The verbs: get, list, create, update, patch, delete and deletecollection."""
