"""The planner, a short-lived process at the start of a run. It imports torch, so that the supervisor need not."""
