//go:build tools

// Package tools pins Helm, which renders and installs the chart in tests and
// in code generation. Nothing here is compiled into Kollect.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
