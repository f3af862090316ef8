//! Every kind of connection against the same forbidden places, and against names that change their
//! address. The clients are the real ones; the servers are sockets that count who comes.

/// One test for each kind of connection.
macro_rules! for_each_kind {
    ($check:path) => {
        $crate::for_each_kind!($check; plain Plain, http Http, object_store ObjectStore,
            mongo Mongo, kafka Kafka, nats Nats);
    };
    ($check:path; $($name:ident $kind:ident),*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $check($crate::kind::Kind::$kind).await;
        }
    )*};
}
pub(crate) use for_each_kind;

mod door;
mod kind;
mod learned;
mod moving;
mod nats;
mod resolver;
mod table;
