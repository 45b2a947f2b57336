"""What a saved page holds of a job: columns, overviews, arguments, and what fits of them."""
