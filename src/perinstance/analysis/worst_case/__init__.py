"""Statements for every data set within bounds: ``worst_case_dp`` is the entry, ``all_data_sets`` the region it
searches; ``assumed_data`` narrows it by assumptions, and adds that of the exponential mechanism.
"""
