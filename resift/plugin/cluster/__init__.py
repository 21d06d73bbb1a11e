"""What Resift installs in a cluster: resources and settings, made, checked and removed."""
