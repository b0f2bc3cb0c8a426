"""Private logistic regression: ``estimator``, and the ``mechanism`` by itself, with the loss that it minimises."""
