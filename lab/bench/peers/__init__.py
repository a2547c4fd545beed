"""One trace through two schedulers: what arrives, who plays it, and what is counted of both."""
