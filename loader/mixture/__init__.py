"""Files that are read in given shares: components of a mixture, each repeated as often as the longest one lasts."""
