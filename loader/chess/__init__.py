"""The family of records `chess`: positions with a score and a result. Formats read it, the native stream carries it."""
