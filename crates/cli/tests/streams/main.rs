//! The built program between a real kube-apiserver and a real NATS server: the newest message of
//! every row is what the cluster holds, whatever happens to either of them.

mod example;
mod kills;
mod scenarios;
mod stage;
