"""`penstock.Dataset`."""
