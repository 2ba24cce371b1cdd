"""What is stored: experiments, their tables, joins of several, packs; and how to reach them."""
