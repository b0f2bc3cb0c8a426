"""What the losses of the people in the data add up to: ``loss_moments`` (moments, quantiles, tails), several
definitions of privacy at once and odds of membership (``dp_definitions``), people who leave together
(``group_privacy``, on neighbouring fits from ``enclosed_groups``; ``chain_bounds``), several releases
(``composition_bounds``).
"""
