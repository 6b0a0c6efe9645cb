"""The kinds of services that store files: GridFTP and XRootD."""
