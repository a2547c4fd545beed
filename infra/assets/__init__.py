"""What functions are made of: code, the layer, its bytecode and botocore's models."""
