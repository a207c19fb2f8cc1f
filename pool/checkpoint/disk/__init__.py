"""How files of a checkpoint lie on disk: whole or absent, their JSON, their tensors. Free of torch."""
