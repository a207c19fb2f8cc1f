"""What tools do not hold in memory: files without names, sorted into buckets."""
