"""Files, tables, plots and pages of measurements."""
