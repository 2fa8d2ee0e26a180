"""What the API server does to a pod between decoding and storing it: prepare, classify, warn, bind."""
