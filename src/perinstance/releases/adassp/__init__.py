"""AdaSSP: ``estimator``, and the ``mechanism`` by itself; it begins with ``promises.looks``."""
