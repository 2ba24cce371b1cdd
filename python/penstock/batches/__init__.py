"""What a batch of the engine becomes: X, columns of obs, copies on a device."""
