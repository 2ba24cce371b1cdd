"""What knows nothing of cells: checked arguments, text for people, shared integers."""
