"""Metrics of a validation: what is collected for them batch by batch, and how they are computed. Free of torch."""
