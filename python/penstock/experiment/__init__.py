"""Stored experiments, their tables, joins and packs, and access to remote stores."""
