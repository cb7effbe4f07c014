"""Loops of act, step, store and update, one file for each."""
