"""File formats: a folder each, found by name or by a file's content (`loader.formats.registry`)."""
