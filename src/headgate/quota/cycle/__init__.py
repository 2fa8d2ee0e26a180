"""One admission cycle: nominate the heads of all queues, order them, admit or preempt."""
