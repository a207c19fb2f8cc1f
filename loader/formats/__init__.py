"""The interface of file formats, and the registry that finds one by its name or by a file's content."""
