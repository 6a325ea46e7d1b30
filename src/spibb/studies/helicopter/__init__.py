"""The study of Soft-SPIBB with neural networks: the helicopter."""
