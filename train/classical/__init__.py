"""Learning without a network: values of local shapes."""
