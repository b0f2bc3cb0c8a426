"""Files that only their owner may read: ``private_files`` creates them, ``loss_writer`` writes everybody's losses."""
