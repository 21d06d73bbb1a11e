"""What a cluster is told: resources installed, checked and removed."""
