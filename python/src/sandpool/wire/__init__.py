"""The binary form of a batch."""
