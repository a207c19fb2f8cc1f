"""Files of positions in formats that have native codecs: opened for the stream, looked into, written."""
