"""What Spark needs to run here: Java, the jars, the pair of Spark and Delta, the sessions; and the doctor who looks."""
