"""Pallas kernels for TPU and GPU, one file each, beside the plain function that each equals."""
