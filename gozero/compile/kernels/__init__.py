"""Pallas kernels for TPU and GPU, one per file; each equals a plain function."""
