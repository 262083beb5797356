"""What has a form that can be checked: one file for each kind of thing."""
