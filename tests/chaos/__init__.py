"""What is done to the project to see whether its tests would notice."""
