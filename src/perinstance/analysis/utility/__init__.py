"""What the noise costs: generalisation and statistical efficiency."""
