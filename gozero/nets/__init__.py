"""Features, the policy and value network, and its weights."""
