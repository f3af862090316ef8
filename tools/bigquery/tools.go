//go:build tools

// Package tools pins the BigQuery emulator the tests run.
//
// Nothing here is compiled into Kollect: the blank imports make `go mod tidy`
// record exact versions and checksums, and the test kit builds the command
// from this module.
package tools

import (
	_ "github.com/goccy/bigquery-emulator/cmd/bigquery-emulator"
)
