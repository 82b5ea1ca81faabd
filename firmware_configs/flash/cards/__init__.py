"""Targets of a kit behind one interface: a mounted partition, a disk image or a block device."""
