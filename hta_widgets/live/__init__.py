"""Answer the requests that pages send about a job or a comparison."""
