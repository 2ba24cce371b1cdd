"""Which epoch comes next, how far it is, resuming it, and agreeing on it with other processes."""
