"""CloudWatch, where MiniStack is kinder than AWS or lacks what we use."""
