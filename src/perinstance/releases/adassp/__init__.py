"""AdaSSP: ``estimator``, the ``mechanism`` by itself, and the ``looks`` that it begins with."""
