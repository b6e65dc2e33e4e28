"""What a run comes to: values, how sure they are, and what to cite."""
