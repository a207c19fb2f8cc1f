"""The exchange through the memory of the coordinator's accelerators: workers on them use that memory where it lies."""
