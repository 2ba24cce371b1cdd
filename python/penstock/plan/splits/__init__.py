"""Split datasets into parts."""
