"""Buying capacity with the credentials of whoever runs the command line; no function may."""
