"""Upper bounds on how far one person moves a smooth minimum, without a refit. ``newton_step_ball`` is the argument;
``hessian_bounds`` what it needs of the others' curvature; ``second_step``, ``third_order_step`` and ``near_knot_step``
sharpen it by a second Newton step.
"""
