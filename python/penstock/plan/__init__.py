"""Plan of an epoch: selection, settings, sampling and shard, and reports of the plan."""
