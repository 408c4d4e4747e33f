"""What runs amount to: recorded results, the paper's tables and figures beside ours, and the report."""
