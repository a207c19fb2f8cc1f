"""Memory that others write and the coordinator reads, and the other way round."""
