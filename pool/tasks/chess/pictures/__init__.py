"""Pictures of a network's integers, by matplotlib, which is imported as late as can be."""
