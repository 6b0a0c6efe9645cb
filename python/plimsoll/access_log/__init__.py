"""Laws of the requests of an access log: popularity, arrivals, sizes, sessions; and the experiment that follows
them."""
