"""The tree of queues, the ledger of what is allocated and reserved, gangs and promises."""
