# Sourced by the script that starts the driver's JVM. A service manager sends SIGTERM to every process of a service; the
# driver ends its round upon it and then its JVM, which must not end before.
trap '' TERM
