"""The device side: local data, local training, the device's half of a round."""
