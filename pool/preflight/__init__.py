"""What a run on GPUs can expect of them, found out and computed before it begins. Free of torch."""
