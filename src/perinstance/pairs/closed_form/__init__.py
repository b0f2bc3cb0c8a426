"""One Gaussian shift, one posterior sample or one Laplace shift, in closed form. Read ``profile`` first (delta of an
epsilon), then ``epsilon`` (its inverse, for one person and for many at one delta). ``sampled_step`` and
``student`` stand by themselves.
"""
