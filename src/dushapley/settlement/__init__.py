"""From values to payments: the rules, the check, and what would change."""
