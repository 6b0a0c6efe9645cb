"""The kinds of services that store files or their names: GridFTP, XRootD, the file catalogue."""
