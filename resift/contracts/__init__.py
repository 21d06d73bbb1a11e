"""What engines and stores promise, and how searches and documents are written that they take."""
