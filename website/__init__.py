"""What makes the documentation site: `make docs` builds it, this package draws and runs what its pages show."""
