"""What privacy and its noise mean for accuracy: ``generalization_bounds`` from the losses, and the
``statistical_efficiency`` of one posterior sample.
"""
