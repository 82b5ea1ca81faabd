"""What is flashed to boards. Board profiles, identities and kits live here."""
