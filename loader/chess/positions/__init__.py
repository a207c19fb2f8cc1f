"""Files of chess positions in any format: opening, reading, verifying and writing them."""
