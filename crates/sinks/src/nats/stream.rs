//! The stream: found or created, looked at, never changed.

use kollect_api::sink::common::ProvisioningMode;
use serde_json::{Value, json};

use super::{
    connection::Connection,
    fault::{Fault, code},
    settings::{DEFAULT_STREAM, Settings},
    subject::covers,
};
use crate::error::SinkError;

/// How many messages of one subject a stream keeps that we create.
const HISTORY: u32 = 16;

/// A stream that has our subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) name: String,
    /// When it was created: another one of the same name is another one. Empty if nothing could be
    /// found out, because the user may not ask.
    pub(super) created: String,
    /// Whether a delete may end the history of its subject and then itself.
    pub(super) forgets: bool,
    /// Whether messages can be fetched directly.
    pub(super) direct: bool,
    /// The largest message it takes, if it has a limit of its own.
    pub(super) max_message: Option<u64>,
    pub(super) last_sequence: u64,
}

/// What to do about a stream that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Create it, if the sink may.
    Create,
    /// Nothing.
    Leave,
}

/// Finds the stream of a sink, or creates it. None if there is none and none is to be created.
pub(super) async fn find(
    connection: &Connection,
    settings: &Settings,
    missing: Missing,
) -> Result<Option<Stream>, SinkError> {
    let stage = "nats stream";
    let names = match &settings.stream {
        Some(name) => vec![name.clone()],
        None => vec![DEFAULT_STREAM.to_owned(), settings.own_default_stream()],
    };
    for (at, name) in names.iter().enumerate() {
        let info = match connection
            .ask(&format!("STREAM.INFO.{name}"), &Value::Null)
            .await
        {
            Ok(info) => info,
            Err(Fault::Refused(refusal)) if refusal.code == code::STREAM_NOT_FOUND => {
                if missing == Missing::Leave {
                    return Ok(None);
                }
                return match settings.provisioning {
                    ProvisioningMode::Existing => Err(absent(name, settings)),
                    ProvisioningMode::Ensure => create(connection, settings, name).await.map(Some),
                };
            }
            // Who may publish and nothing else can do so; the acknowledgements tell the rest.
            Err(Fault::Denied(text)) => {
                tracing::debug!(stream = name, text, "the stream cannot be looked at");
                return Ok(Some(Stream::unknown(name)));
            }
            Err(Fault::Nobody) => {
                return Err(SinkError::terminal(
                    "nats stream: JetStream is not enabled at the server or for this account",
                ));
            }
            Err(fault) => return Err(fault.at(stage)),
        };
        match Stream::of(&info, name, settings) {
            Err(_) if at + 1 < names.len() => {}
            found => return found.map(Some),
        }
    }
    unreachable!("the last name decides")
}

fn absent(name: &str, settings: &Settings) -> SinkError {
    let needed = settings.needed();
    SinkError::terminal(format!(
        "nats stream: there is no stream {name:?}; create it with the subject {needed:?}, or let \
         the sink do so (spec.provisioning.mode: ensure)"
    ))
}

async fn create(
    connection: &Connection,
    settings: &Settings,
    name: &str,
) -> Result<Stream, SinkError> {
    let stage = "nats create stream";
    let subject = &settings.subject;
    let wanted = json!({
        "name": name,
        "description": "Inventory rows, published by kollect",
        "subjects": [subject, format!("{subject}.>")],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "num_replicas": 1,
        "max_msgs_per_subject": HISTORY,
        "allow_direct": true,
        "allow_rollup_hdrs": true,
        "allow_msg_ttl": true,
    });
    match connection
        .ask(&format!("STREAM.CREATE.{name}"), &wanted)
        .await
    {
        Ok(info) => Stream::of(&info, name, settings),
        Err(Fault::Refused(refusal)) if refusal.code == code::SUBJECTS_OVERLAP => {
            let question = json!({"subject": subject_of_overlap(settings)});
            let owners = connection.ask("STREAM.NAMES", &question).await;
            let owners = owners.ok().and_then(|answer| {
                let names = answer["streams"].as_array()?;
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                (!names.is_empty()).then(|| names.join(", "))
            });
            let owners = owners.unwrap_or_else(|| "another stream".to_owned());
            Err(SinkError::terminal(format!(
                "{stage}: the subject {subject:?} belongs to {owners} already; name that stream in \
                 spec.nats.stream, or choose another subject"
            )))
        }
        // Somebody was faster.
        Err(Fault::Refused(refusal)) if refusal.code == code::STREAM_NAME_IN_USE => {
            let info = connection
                .ask(&format!("STREAM.INFO.{name}"), &Value::Null)
                .await;
            let info = info.map_err(|fault| fault.at(stage))?;
            Stream::of(&info, name, settings)
        }
        Err(Fault::Denied(_)) => Err(SinkError::Forbidden(format!(
            "{stage}: there is no stream {name:?} and this user may not create it; create it with \
             the subjects {subject:?} and \"{subject}.>\", or grant $JS.API.STREAM.CREATE.{name}"
        ))),
        Err(fault) => Err(fault.at(stage)),
    }
}

fn subject_of_overlap(settings: &Settings) -> String {
    settings.needed()
}

impl Stream {
    /// A stream that nothing can be asked about.
    fn unknown(name: &str) -> Self {
        Stream {
            name: name.to_owned(),
            created: String::new(),
            forgets: false,
            direct: false,
            max_message: None,
            last_sequence: 0,
        }
    }

    /// What the server says of a stream; an error if it is none for this sink.
    fn of(info: &Value, name: &str, settings: &Settings) -> Result<Self, SinkError> {
        let config = &info["config"];
        let flag = |name: &str| config[name].as_bool().unwrap_or_default();
        let subjects = config["subjects"].as_array();
        let mut subjects = subjects.into_iter().flatten().filter_map(Value::as_str);
        let needed = settings.needed();
        if !subjects.any(|pattern| covers(pattern, &needed)) {
            return Err(SinkError::terminal(format!(
                "nats stream: stream {name:?} does not have the subject {needed:?}; add it to the \
                 stream, or name another one in spec.nats.stream"
            )));
        }
        if flag("no_ack") {
            return Err(SinkError::terminal(format!(
                "nats stream: stream {name:?} acknowledges nothing (no_ack), so nobody would know \
                 what it holds; name another one in spec.nats.stream"
            )));
        }
        let limit = config["max_msg_size"].as_i64().unwrap_or(-1);
        Ok(Stream {
            name: name.to_owned(),
            created: info["created"].as_str().unwrap_or_default().to_owned(),
            // A delete that vanishes must not uncover what stood before it.
            forgets: flag("allow_msg_ttl") && flag("allow_rollup_hdrs"),
            direct: flag("allow_direct"),
            max_message: u64::try_from(limit).ok().filter(|limit| *limit > 0),
            last_sequence: info["state"]["last_seq"].as_u64().unwrap_or_default(),
        })
    }
}
