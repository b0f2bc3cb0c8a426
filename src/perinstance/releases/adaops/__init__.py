"""AdaOPS: ``estimator``, with what its draws told about each person, and the ``mechanism`` by itself."""
