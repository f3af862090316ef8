//! Every kind of connection against the table of forbidden places.

use futures::{StreamExt, stream};
use kollect_api::address::AddressPolicy;
use kollect_sinks::SinkError;
use serde::Deserialize;

use crate::{
    door::{Doors, Manners},
    kind::Kind,
    resolver::Turns,
};

/// The dialler's own vectors; only what is refused matters here.
#[derive(Deserialize)]
struct Vectors {
    addresses: Vec<Judged>,
    dials: Vec<Dial>,
}

#[derive(Deserialize)]
struct Judged {
    address: String,
    by_default: bool,
    with_private: bool,
}

#[derive(Deserialize)]
struct Dial {
    host: String,
    #[serde(default)]
    private: bool,
    allow_host: Option<String>,
    allow_network: Option<String>,
    #[serde(default)]
    answer: Vec<String>,
    dialled: Option<Vec<String>>,
}

/// A place that must not be reached.
struct Forbidden {
    policy: AddressPolicy,
    host: String,
    answer: Vec<String>,
}

/// How many clients try at a time.
const AT_A_TIME: usize = 16;

/// Spellings of loopback that only some resolvers know.
const LOOPBACK: [&str; 4] = ["0x7f.1", "2130706433", "0177.0.0.1", "LOCALHOST."];

fn forbidden() -> Vec<Forbidden> {
    let text = include_str!("../../src/dial/vectors.yaml");
    let vectors: Vectors = serde_saphyr::from_str(text).unwrap();
    let mut places = Vec::new();
    for Judged {
        address,
        by_default,
        with_private,
    } in vectors.addresses
    {
        for (allow_private, allowed) in [(false, by_default), (true, with_private)] {
            if allowed {
                continue;
            }
            let policy = AddressPolicy {
                allow_private,
                ..AddressPolicy::default()
            };
            let bare = address.split('%').next().unwrap().to_owned();
            for (host, answer) in [
                (address.clone(), Vec::new()),
                ("name.example.com".to_owned(), vec![bare]),
            ] {
                places.push(Forbidden {
                    policy: policy.clone(),
                    host,
                    answer,
                });
            }
        }
    }
    for dial in vectors
        .dials
        .into_iter()
        .filter(|dial| dial.dialled.is_none())
    {
        let policy = AddressPolicy {
            allow_private: dial.private,
            allowed_hosts: dial.allow_host.into_iter().collect(),
            allowed_networks: dial
                .allow_network
                .iter()
                .map(|network| network.parse().unwrap())
                .collect(),
            platform: false,
        };
        places.push(Forbidden {
            policy,
            host: dial.host,
            answer: dial.answer,
        });
    }
    places.extend(LOOPBACK.map(|host| Forbidden {
        policy: AddressPolicy::default(),
        host: host.to_owned(),
        answer: vec!["127.0.0.1".to_owned()],
    }));
    places
}

/// Nobody comes, and the sink can say why: a forbidden place is for a person to change.
async fn refuses(kind: Kind) {
    let doors = Doors::open(Manners::default()).await;
    let places = forbidden();
    let takes = |place: &&Forbidden| kind.takes(&place.host);
    let asked = stream::iter(places.iter().filter(takes))
        .map(
            async |Forbidden {
                       policy,
                       host,
                       answer,
                   }| {
                let dialer = Turns::new(&[answer]).dialer(policy.clone());
                let subject = kind.subject(dialer, host, doors.port).await;
                let failure = subject.failure(host, doors.port).await;
                // The second word is that of a sink that was not even opened.
                let told = |text: &str| text.contains("forbidden") || text.contains("not allowed");
                assert!(
                    matches!(&failure, Some(SinkError::Terminal(text)) if told(text)),
                    "{kind:?} to {host:?} ({answer:?}): {failure:?}"
                );
            },
        )
        .buffer_unordered(AT_A_TIME)
        .count()
        .await;
    assert!(
        asked * 3 > places.len() * 2,
        "{kind:?} was asked for {asked} of {}",
        places.len()
    );
    assert_eq!(doors.allowed.callers().await, 0, "{kind:?}");
    assert_eq!(doors.forbidden.callers().await, 0, "{kind:?}");
}

mod no_forbidden_place_is_reached {
    crate::for_each_kind!(super::refuses);
}
