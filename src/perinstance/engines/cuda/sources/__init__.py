"""The CUDA source of the kernels, put together by ``compiled_kernels``: one person's arithmetic and what many share.

``one_person.cu`` has the arithmetic of one person, ``tiles.cu`` products of tiles and copies into shared memory,
``finish_kernels.cu`` what is done with leverages and predictions, ``fused_kernels.cu`` the kernels of few columns and
``wide_kernels.cu`` those of more. ``objective_person.cu`` inverts the pair of objective perturbation.
"""
