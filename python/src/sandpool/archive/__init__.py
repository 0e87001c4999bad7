"""The archive of an environment's folder."""
