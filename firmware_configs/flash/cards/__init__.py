"""What a kit is written to: a mounted partition, a disk image or a block device, seen as one kind of card."""
