"""The devices of a machine: their names, what they can do, how they are opened, awaited and lost."""
