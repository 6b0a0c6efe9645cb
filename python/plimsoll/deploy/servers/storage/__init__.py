"""Servers of files: GridFTP and XRootD, their files and their credentials."""
