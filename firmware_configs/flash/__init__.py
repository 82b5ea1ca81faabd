"""Writing a kit to a mounted card, a disk image or a block device, or to a running board over ssh."""
