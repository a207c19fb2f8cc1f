"""What a step would cost on the devices there are."""
