"""CustomResourceDefinitions and validation rules of Volcano's kinds."""
