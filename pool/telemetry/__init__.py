"""Shows a run to people and programs: progress on screen, status.json, Prometheus, TensorBoard's event files,
traces."""
