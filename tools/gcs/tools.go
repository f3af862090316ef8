//go:build tools

// Package tools pins the server of Google Cloud Storage that tests run.
package tools

import _ "github.com/fsouza/fake-gcs-server"
