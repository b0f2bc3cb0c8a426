"""AdaOPS: ``estimator``, and the ``mechanism`` by itself."""
