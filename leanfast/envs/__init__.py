"""Batches of environments: the native engine and its TorchRL and Gymnasium faces."""
