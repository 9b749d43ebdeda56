# Sourced by the script that starts the driver's JVM. A service manager sends SIGTERM to every process of a service; the
# driver ends its round upon it and then its JVM, which must not end before.
trap '' TERM
# Spark puts the folder of its configuration on the class path, and a JVM takes no archive of classes where a folder on
# it has files. This one is not there: all settings come from the program.
SPARK_CONF_DIR="$SPARK_CONF_DIR/none"
