"""What the stored pairs add up to.

``everybody`` composes them for all people, ``person_history`` for one; ``running_sums`` keeps quick upper bounds;
``growth`` says how the totals of all people grew from release to release.
"""
