"""What an epoch will read: the selection, the settings, the draw, the shard; and reports of it."""
