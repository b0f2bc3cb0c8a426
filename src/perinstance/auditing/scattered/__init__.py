"""Audits whose losses stay where they were computed: one file per partition, and sketches that come back.

``loss_sketch`` is what is known of many losses in little room, ``partition_losses`` runs on the workers, ``walk`` leads
them, ``repeated_ids`` finds people who occur twice, ``result`` is what the curator gets.
"""
