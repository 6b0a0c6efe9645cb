"""The kinds of services that start jobs or choose their sites: GRAM, a broker and its simulated grid."""
