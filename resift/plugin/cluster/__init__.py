"""Everything that Resift installs in a cluster: resources, cluster settings, and changes to indices and pipelines."""
