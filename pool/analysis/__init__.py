"""Runs that have been made: compared by their folders, asked (`predict`), made to find a rate. Free of torch but for
`predict`."""
