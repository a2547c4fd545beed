"""Buying capacity with the credentials of the person at the command line; no function may."""
