"""What is fitted: losses, mergeable statistics, leave-one-out answers."""
