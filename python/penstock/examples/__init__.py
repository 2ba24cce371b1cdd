"""Example cells that the package ships."""
