"""The results of runs as tables, plots and one page."""
