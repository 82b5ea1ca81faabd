"""Mosquitto for one fleet: its configuration and access list, and how they are installed."""
