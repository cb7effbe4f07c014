"""Measurements that anyone can repeat with one command: `leanfast bench NAME`."""
