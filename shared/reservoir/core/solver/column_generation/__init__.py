"""Column generation; imported where it is asked for alone, as HiGHS and NumPy cost a third of a second to load."""
