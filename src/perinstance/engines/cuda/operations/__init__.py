"""What a device has besides Gram matrices and linear losses (``catalogue``, to read first: what is done by what).

``run_sums`` adds up rows and counts the additions; ``device_losses`` are losses of one predictor in torch;
``newton_sums`` and ``certificate_sums`` are the folds of smooth models, ``descent_sums`` those of a descent;
``row_walks`` are the maps: the device multiplies rows, and the processor makes people of the few numbers per row.
``objective_epsilons`` inverts the pairs of objective perturbation (``objective_plane``), ``objective_kernel`` does so
by one compiled kernel.
"""
