"""A pool of environments, seen from the trainer."""
