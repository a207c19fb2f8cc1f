"""The feeder process: runs the loader library, fills free ring slots with batches, and reports them. Imports no
torch."""
