"""Recording what a flow wrote to its target and nobody recorded, while its source and its driver are dead."""
