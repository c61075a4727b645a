"""What came out of runs, for people: tables, plots, and one page that has them all."""
