"""What is in use: the quota tree, the ledger of reservations, assumed workloads, quota in use on nodes."""
