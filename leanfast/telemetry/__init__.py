"""What a run shows and leaves behind."""
