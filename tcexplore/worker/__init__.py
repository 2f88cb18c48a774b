"""The process side: standby, one run, a private protocol channel. The only room where the user's code runs."""
