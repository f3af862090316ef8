//! Many questions at once, to an API server that takes its time.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, service::service_fn};
use hyper_util::rt::TokioIo;
use kollect_watch::{Resource, WatchScope};
use kube::{Client, Config};
use tokio::net::TcpListener;

use super::*;

const MANY: usize = 40;
const PATIENCE: Duration = Duration::from_mins(1);

/// Counts the questions it is asked.
#[derive(Debug, Default)]
struct Slow {
    open: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
}

impl Slow {
    /// Says no to a review, after a while.
    async fn answer(&self) -> Response<Full<Bytes>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        // Until as many are here as ever will be, so that nobody is missed.
        while self.asked.load(Ordering::SeqCst) < AT_A_TIME {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.open.fetch_sub(1, Ordering::SeqCst);
        let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
            "spec":{},"status":{"allowed":false}}"#;
        let response = Response::builder().header("content-type", "application/json");
        response.body(Full::from(review)).expect("a response")
    }
}

async fn serve(slow: Arc<Slow>, listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let slow = Arc::clone(&slow);
        tokio::spawn(async move {
            let answer = |_: Request<hyper::body::Incoming>| async {
                Ok::<_, Infallible>(slow.answer().await)
            };
            let connection = hyper::server::conn::http1::Builder::new();
            let served = connection.serve_connection(TokioIo::new(stream), service_fn(answer));
            // Whoever asked may leave.
            let _ = served.await;
        });
    }
}

/// One review per namespace, because nobody may list cluster-wide: a few are asked at a time, each
/// once, and all are answered.
#[tokio::test]
async fn c9_reviews_of_many_namespaces_are_asked_a_few_at_a_time() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let slow = Arc::<Slow>::default();
    let server = tokio::spawn(serve(Arc::clone(&slow), listener));
    let address = format!("http://{address}").parse().expect("an address");
    let client = Client::try_from(Config::new(address)).expect("a client");
    let discovery = Arc::new(Discovery::new(client.clone()));
    let (mut questions, mut answers) = Questions::new(
        discovery,
        Arc::new(Reviewer::new(client)),
        Keeper::default(),
    );
    let resource = Arc::new(Resource {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        plural: "deployments".to_owned(),
        namespaced: true,
    });
    // A second time while the first is under way is no other question.
    for namespace in (0..MANY).chain(0..MANY) {
        questions.ask_access(&Review {
            resource: Arc::clone(&resource),
            scope: WatchScope::Namespace(format!("team-{namespace}").into()),
        });
    }
    let mut denied = BTreeSet::new();
    while denied.len() < MANY {
        let answer = tokio::time::timeout(PATIENCE, answers.recv()).await;
        let answer = answer.expect("in time").expect("an answer");
        questions.answered(&answer);
        match answer {
            Answered::Access(review, Permission::Denied) => denied.insert(review),
            other => panic!("{other:?}"),
        };
    }
    assert!(questions.is_idle());
    assert_eq!(slow.most.load(Ordering::SeqCst), AT_A_TIME);
    assert_eq!(slow.asked.load(Ordering::SeqCst), MANY);
    server.abort();
}

#[tokio::test]
async fn c3_a_question_that_panics_is_noticed_and_answered() {
    let keeper = Keeper::default();
    let fine = contained(&keeper, &"fine", async { 1 }).await;
    assert_eq!((fine, keeper.restarts().len()), (Some(1), 0));
    let answer: Option<u8> = contained(&keeper, &"bad", async { panic!("as asked for") }).await;
    assert_eq!(answer, None, "whoever waits hears that there is no answer");
    assert_eq!(keeper.restarts().get("question"), Some(&1));
}
