"""What measurements are kept in and shown as: files, tables, plots, pages."""
