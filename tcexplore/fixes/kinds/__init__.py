"""One kind of cure in each file: `propose(site)` yields what could be changed at a place, the best first."""
