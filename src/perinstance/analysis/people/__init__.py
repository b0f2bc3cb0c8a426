"""What the losses of the people in the data add up to: ``loss_moments``, several definitions of privacy at once
(``dp_definitions``), odds of membership, groups, composition over releases.
"""
