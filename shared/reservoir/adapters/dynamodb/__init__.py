"""The state stores, on DynamoDB."""
