"""A stop that loses nothing: the whole embedded AWS written to a folder, and read from there at the next start."""
