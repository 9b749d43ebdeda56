// Reads the dashboard that it is given by the types that Grafana publishes of itself: every field of it, of its panels'
// options and of their queries has to be one that Grafana knows, of its type, and none that it asks for may lack.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var read dashboard.Dashboard
	check(read.UnmarshalJSONStrict(text))
	check(read.Validate())
	fmt.Printf("%d panels\n", len(read.Panels))
}

// What reads strictly answers with an empty list of errors where it found none.
func check(err error) {
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
