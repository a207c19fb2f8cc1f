"""Files of networks in bullet's format: which tensors, their integers, their bytes, what an engine makes of them."""
