"""The feeder: runs the loader library, fills free ring slots, announces them. Imports no torch."""
