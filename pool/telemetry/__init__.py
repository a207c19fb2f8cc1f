"""Progress, status and trace: the views of a run for people."""
