"""Train small networks as fast as the hardware allows, in plain PyTorch."""
