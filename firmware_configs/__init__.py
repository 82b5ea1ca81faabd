"""Provisioning and flashing of boards: board profiles, identities and kits."""
