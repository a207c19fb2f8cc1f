"""The planner: a short-lived process that knows torch, so that the supervisor need not."""
