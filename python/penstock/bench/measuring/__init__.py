"""A measurement: a process of its own, its memory and time, round after round."""
