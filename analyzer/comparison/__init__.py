"""Several runs side by side: what differs in how they were set up, where they part, and which did best."""
