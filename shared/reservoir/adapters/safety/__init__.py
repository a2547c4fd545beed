"""Tallies and marks in DynamoDB."""
