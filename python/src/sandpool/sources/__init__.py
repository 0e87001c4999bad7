"""Where a pool's environments come from, besides a folder of the user's own: each file writes one kind of environment's folder."""
