"""The device side: local data, local training, the device's side of the protocol."""
