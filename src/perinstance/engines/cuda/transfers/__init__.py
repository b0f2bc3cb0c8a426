"""Rows to a device and answers back: slices through pinned memory, by compiled calls that do without the interpreter.

``host_to_device`` brings blocks over and ``device_to_host`` columns back, both through ``pinned_buffers``, whose loops
are ``compiled_slices``; ``grouped_uploads`` puts the rows together that the device works on at a time.
``answer_memory`` has the host's memory ready before the answers come, and ``past_cache`` writes to it.
"""
