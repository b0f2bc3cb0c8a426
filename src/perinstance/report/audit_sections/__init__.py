"""The sections of an audit's page: ``figures`` (losses, other noise, attacks), ``leverage_plane``, ``group_lines``.

``other_noise`` computes what one of them draws. The page of an audit on a cluster takes its sections from here too.
"""
