r"""Seldom steps whose losses have a heavy tail, or are large: the large ones are taken apart from all others.

Most steps of a person who is seldom sampled lose next to nothing, and the transform of their sum does not die along a
line: the loss keeps an atom, or next to one, "nothing happened". So the noise of every step is divided softly at a
place t (``loss_cut``): ``A = B + D``, B where its loss is small, D where it is large, both integrals of the same
positive density. Then

``prod A^k = (prod A^k - prod B^k) + prod B^k``,

of which the second is the law of losses that are all small: it hardly ever reaches epsilon, and Chernoff's bound of it
is added (``small_losses``). The first is the law of all others, again positive, so that what inversion along a line
says of it is an upper bound as always; D has no mass near zero and its transform dies soon (``cut_decay``).
``cut_moments`` has B and D in pairs of floats, ``cut_integral`` the difference of the products without cancellation,
``cut_layout`` says where to cut and to integrate (tightness depends on it, never validity), ``cut_answers`` answers.
Where small losses make up epsilon after all, and large ones only the moments, the parts change places
(``small_loss_line``); where neither is next to nothing, each has a line.
"""
