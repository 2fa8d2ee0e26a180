"""The controller that passes API objects to the quota engine and writes what the engine decides."""
