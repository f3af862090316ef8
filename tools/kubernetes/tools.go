//go:build tools

// Package tools pins the Kubernetes programs the tests and the demo run.
//
// Nothing here is compiled into Kollect: the blank imports make `go mod tidy`
// record exact versions and checksums, and the test kit builds the commands
// from this module.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
