"""What releases ask of a model: ``problem``."""
