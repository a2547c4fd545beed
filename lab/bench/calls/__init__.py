"""What ``embedded_calls`` needs: operations, a caller that replays them, and a server that does nothing."""
