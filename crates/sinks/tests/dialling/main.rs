//! Every kind of connection against the same forbidden places, and against names that change their
//! address. The clients are the real ones; the servers are sockets that count who comes.

mod door;
mod kind;
mod learned;
mod moving;
mod nats;
mod resolver;
mod table;
