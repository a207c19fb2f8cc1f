"""Code from outside the project that a setting names: how it is found, what it must offer, how its errors are shown."""
