"""Column generation. Its modules are imported only where they are used: HiGHS and NumPy take 0.3 s to load."""
