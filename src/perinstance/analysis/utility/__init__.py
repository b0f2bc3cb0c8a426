"""What privacy and its noise mean for accuracy: ``generalization_bounds`` from the losses, the
``statistical_efficiency`` of one posterior sample, and ``accuracy_comparison`` on held-out rows.
"""
