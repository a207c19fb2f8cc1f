"""Code from outside the project, named by a setting: where it is found, what it must offer, how its errors are told."""
