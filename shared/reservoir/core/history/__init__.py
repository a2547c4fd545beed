"""What happened, and what there was at an instant: the history that people look back on."""
