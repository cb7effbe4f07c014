"""Buffers that live where the learner lives."""
