"""The data family `chess`: file formats of positions with a score and a result, the training source, tools and
statistics."""
