"""What is known of each vendor's parts: architecture and number formats. Data, no probing."""
