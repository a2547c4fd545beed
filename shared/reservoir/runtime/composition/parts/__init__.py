"""What several functions are composed of, made once a process."""
