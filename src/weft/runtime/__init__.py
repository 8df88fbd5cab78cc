"""Start and control Spark: find Java and the jars, run the JVM and its sessions, and check the installation."""
